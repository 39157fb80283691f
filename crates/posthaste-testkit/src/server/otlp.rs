//! A receiver of OpenTelemetry's spans: decodes them with the decoder that OpenTelemetry publishes.

use super::{Error, Result, python};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

const SCRIPT: &str = include_str!("../../python/otlp.py");

/// A receiver on a port of 127.0.0.1, gone when its owner is.
#[derive(Debug)]
pub struct OtlpReceiver {
    process: Child,
    /// While it is open, the receiver runs.
    _stdin: Option<ChildStdin>,
    port: u16,
}

impl OtlpReceiver {
    /// Starts one on a free port.
    pub fn start() -> Result<Self> {
        Self::start_on(0)
    }

    /// Starts one on this port.
    pub fn start_on(port: u16) -> Result<Self> {
        let mut process = python::command(SCRIPT, &[&port.to_string()])?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::doing("starting the receiver"))?;
        let stdin = process.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = process.stdout.take() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(Error::doing("waiting for the receiver"))?;
        }
        let port = line.trim().parse();
        Ok(Self {
            process,
            _stdin: stdin,
            port: port.map_err(Error::doing("the receiver did not start"))?,
        })
    }

    /// Its address, for OTLP over HTTP.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What it has received, as JSON: a list of spans.
    pub fn spans(&self) -> Result<String> {
        self.ask("/spans")
    }

    /// The headers of the batch that came last, as JSON.
    pub fn headers(&self) -> Result<String> {
        self.ask("/headers")
    }

    /// HTTP/1.0: the answer ends with the connection, and is in one piece.
    fn ask(&self, path: &str) -> Result<String> {
        let asked = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = asked().map_err(Error::doing("asking the receiver"))?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
        body.map(str::to_owned)
            .ok_or_else(|| Error::new("the receiver did not answer in HTTP"))
    }
}

impl Drop for OtlpReceiver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
