//! Standard Webhooks signatures: the receiver can tell that a call is ours, unchanged and recent.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// How many bytes a key has.
const KEY: std::ops::RangeInclusive<usize> = 24..=64;

/// A key that sender and receiver share.
#[derive(Clone)]
pub(super) struct Secret(Vec<u8>);

impl Secret {
    /// Reads `whsec_` and base64. Says what is wrong, and never what was given.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let key = text
            .strip_prefix("whsec_")
            .and_then(|base64| STANDARD.decode(base64).ok())
            .ok_or("a secret is written as whsec_ and base64")?;
        match KEY.contains(&key.len()) {
            true => Ok(Self(key)),
            false => Err("a secret has 24 to 64 bytes"),
        }
    }

    fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length will do");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// The header `webhook-signature`: one signature for each secret, so that a secret can be replaced
/// while receivers still know the old one.
pub(super) fn signatures(secrets: &[Secret], id: &str, timestamp: &str, body: &[u8]) -> String {
    let signatures: Vec<String> = secrets
        .iter()
        .map(|secret| secret.sign(id, timestamp, body))
        .collect();
    signatures.join(" ")
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // From the specification's own example.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    #[test]
    fn a_signature_is_what_the_specification_says() {
        let secret = Secret::parse(SECRET).unwrap();
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", br#"{"test": 2432232314}"#);
        assert_eq!(secret.sign(id, "1614265330", body), SIGNATURE);
        let both = signatures(&[secret.clone(), secret], id, "1614265330", body);
        assert_eq!(both, format!("{SIGNATURE} {SIGNATURE}"));
    }

    #[test]
    fn a_secret_that_is_none_is_refused_and_not_shown() {
        let short = format!("whsec_{}", STANDARD.encode([1; 23]));
        let long = format!("whsec_{}", STANDARD.encode([1; 65]));
        for text in [
            "",
            "whsec_",
            "hunter2",
            "whsec_!",
            &short,
            &long,
            &SECRET[6..],
        ] {
            assert!(Secret::parse(text).is_err(), "{text}");
        }
        assert_eq!(format!("{:?}", Secret::parse(SECRET)), "Ok(***)");
    }
}
