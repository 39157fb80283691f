//! A certificate authority of one's own.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        // Not the name that its certificates have, else OpenSSL takes them for signed by themselves.
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "An authority for tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this name, and its key.
    pub(crate) fn certificate(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}
