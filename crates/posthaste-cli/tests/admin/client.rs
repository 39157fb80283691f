//! HTTP by hand: every header of a request is what the test says, and nothing else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A request to be sent.
#[derive(Clone)]
pub(crate) struct Ask {
    address: String,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Ask {
    pub(crate) fn new(address: &str, method: &str, path: &str) -> Self {
        Self {
            address: address.to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With a token.
    pub(crate) fn by(self, token: &str) -> Self {
        self.with("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.body = body.to_string();
        self.with("Content-Type", "application/json")
    }

    pub(crate) fn form(mut self, body: &str) -> Self {
        self.body = body.to_owned();
        self.with("Content-Type", "application/x-www-form-urlencoded")
    }

    /// As it goes over the wire.
    pub(crate) fn text(&self) -> String {
        let has = |name: &str| {
            self.headers
                .iter()
                .any(|(it, _)| it.eq_ignore_ascii_case(name))
        };
        let mut text = format!(
            "{} {} HTTP/1.1\r\nConnection: close\r\n",
            self.method, self.path
        );
        if !has("host") {
            text.push_str(&format!("Host: {}\r\n", self.address));
        }
        if self.method == "POST" {
            text.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        for (name, value) in self.headers.iter().filter(|(_, value)| value != "(none)") {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        format!("{text}\r\n{}", self.body)
    }

    /// Begins, and leaves the answer unread.
    pub(crate) fn begin(&self) -> TcpStream {
        self.begin_over(TcpStream::connect(&self.address).unwrap())
    }

    fn begin_over(&self, mut stream: TcpStream) -> TcpStream {
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream.write_all(self.text().as_bytes()).unwrap();
        stream
    }

    pub(crate) fn send(&self) -> Told {
        self.over(TcpStream::connect(&self.address).unwrap())
    }

    /// Over a connection that is there.
    pub(crate) fn over(&self, stream: TcpStream) -> Told {
        let mut answer = Vec::new();
        self.begin_over(stream).read_to_end(&mut answer).unwrap();
        Told::read(&answer)
    }
}

impl Told {
    pub(crate) fn read(answer: &[u8]) -> Self {
        let text = String::from_utf8_lossy(answer).into_owned();
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("no HTTP: {text:?}"));
        let mut lines = head.lines();
        let status = lines
            .next()
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let chunked = headers
            .iter()
            .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Self {
            status,
            headers,
            body: if chunked {
                unchunked(body)
            } else {
                body.to_owned()
            },
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(it, _)| it == name);
        found.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The answer of a request that is to succeed.
    pub(crate) fn done(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.json()
    }

    /// The code of the fault of a request that is to fail in this way.
    pub(crate) fn fails(self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let told = self.json();
        assert_eq!(told["code"], code, "{told}");
        for field in ["message", "remedy"] {
            assert!(!told[field].as_str().unwrap().is_empty(), "{told}");
        }
    }
}

fn unchunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        body.push_str(&rest[..size]);
        text = rest[size..].trim_start_matches("\r\n");
    }
    body
}
