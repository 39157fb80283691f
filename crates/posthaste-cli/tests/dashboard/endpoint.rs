//! Where events are delivered to: it refuses everything until it is mended.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Endpoint {
    port: u16,
}

impl Endpoint {
    /// Refuses with this text, which becomes the error of events.
    pub(crate) fn refusing() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mended = Arc::new(AtomicBool::new(false));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mended = mended.clone();
                std::thread::spawn(move || answer(stream.unwrap(), &mended));
            }
        });
        Self { port }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// A `POST` to it makes everything well.
    pub(crate) fn mend(&self) -> String {
        format!("http://127.0.0.1:{}/mend", self.port)
    }
}

/// One request for each connection.
fn answer(stream: TcpStream, mended: &AtomicBool) {
    let mut reader = BufReader::new(&stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.to_lowercase());
    }
    let length = lines
        .iter()
        .find_map(|it| it.strip_prefix("content-length:"));
    let length: usize = length.map_or(0, |it| it.trim().parse().unwrap());
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    let is_photo = String::from_utf8_lossy(&body).contains("shop.photo")
        || lines.iter().any(|it| it.contains("shop.photo"));
    if lines[0].contains(" /mend ") {
        mended.store(true, Ordering::Relaxed);
    }
    let status = match (mended.load(Ordering::Relaxed), is_photo) {
        (true, _) => "204 No Content",
        // A kind of error of its own.
        (false, true) => "415 Unsupported Media Type",
        (false, false) => "400 Bad Request",
    };
    let text = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let _ = (&stream).write_all(text.as_bytes());
}
