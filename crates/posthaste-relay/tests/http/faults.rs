//! Servers that hang, drip, cut and flood.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::Response;
use posthaste::Message;
use posthaste_relay::sink::{Http, Outcome, Sink};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::endpoint::*;

/// A server that does with each connection what the function says.
async fn server<F, A>(act: F) -> Http
where
    F: Fn(TcpStream, usize) -> A + Send + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(own_address()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(act(stream, number));
        }
    });
    let builder = Http::builder(format!("http://{address}/hook"));
    let builder = builder.allow("127.0.0.0/8").timeout(Duration::from_secs(3));
    builder.build().unwrap()
}

/// Reads a whole request, its head and the body that it announces, and gives its method.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let Ok(size @ 1..) = stream.read(&mut chunk).await else {
            return None;
        };
        text.extend_from_slice(&chunk[..size]);
        let Some(end) = text.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse::<usize>().unwrap());
        if text.len() >= end + 4 + length {
            return head.split(' ').next().map(str::to_owned);
        }
    }
}

/// Reads requests and answers them, up to one that would post something.
async fn read_post(stream: &mut TcpStream) {
    while read_request(stream)
        .await
        .is_some_and(|method| method != "post")
    {
        say(stream, "HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n").await;
    }
}

async fn say(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes()).await;
}

// F9
#[tokio::test]
async fn a_server_that_never_answers_is_an_outage_and_takes_no_more_than_its_time() {
    let sink = server(|mut stream, _| async move {
        read_request(&mut stream).await;
        std::future::pending::<()>().await;
    })
    .await;
    for word in ["in time", "does not answer"] {
        let outcome = outcome(&sink).await;
        assert!(
            matches!(&outcome, Outcome::Unavailable(why) if why.contains(word)),
            "{outcome:?}"
        );
    }
}

// B8: the endpoint is there, so it is the event that takes too long.
#[tokio::test]
async fn an_event_that_alone_is_not_answered_costs_its_own_attempts() {
    let sink = server(|mut stream, _| async move {
        read_post(&mut stream).await;
        std::future::pending::<()>().await;
    })
    .await;
    for _ in 0..2 {
        let outcome = outcome(&sink).await;
        assert!(
            matches!(&outcome, Outcome::Retry(why) if why.contains("in time")),
            "{outcome:?}"
        );
    }
}

// F9
#[tokio::test]
async fn a_head_that_drips_is_given_up() {
    let sink = server(|mut stream, _| async move {
        read_request(&mut stream).await;
        for c in "HTTP/1.1 200 OK\r\nx-slow: "
            .chars()
            .chain(std::iter::repeat_n('x', 10_000))
        {
            say(&mut stream, &c.to_string()).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    let outcome = outcome(&sink).await;
    assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_body_that_drips_or_floods_does_not_change_what_the_status_says() {
    for status in ["200 OK", "500 Oh"] {
        let sink = server(move |mut stream, number| async move {
            read_request(&mut stream).await;
            say(
                &mut stream,
                &format!("HTTP/1.1 {status}\r\ncontent-length: 9999999999\r\n\r\n"),
            )
            .await;
            let flood = "x".repeat(1024 * 1024);
            loop {
                match number {
                    0 => tokio::time::sleep(Duration::from_millis(50)).await,
                    _ => say(&mut stream, &flood).await,
                }
                if stream.write_all(b"x").await.is_err() {
                    return;
                }
            }
        })
        .await;
        // The first connection drips, the second floods.
        for _ in 0..2 {
            let started = Instant::now();
            let outcome = outcome(&sink).await;
            match status {
                "200 OK" => assert_eq!(outcome, Outcome::Delivered),
                _ => assert!(
                    matches!(&outcome, Outcome::Retry(why) if why.len() < 400),
                    "{outcome:?}"
                ),
            }
            assert!(started.elapsed() < Duration::from_secs(30));
        }
    }
}

// F9
#[tokio::test]
async fn a_connection_that_is_cut_before_the_status_is_an_outage_until_one_event_does_it_always() {
    for cut_after in ["", "HTTP/1.1 20"] {
        let sink = server(move |mut stream, _| async move {
            read_post(&mut stream).await;
            say(&mut stream, cut_after).await;
        })
        .await;
        let poison = event().await;
        for _ in 0..3 {
            let outcome = sink.deliver(poison.clone()).await;
            assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
        }
        let last = sink.deliver(poison).await;
        assert!(matches!(last, Outcome::Retry(_)), "{last:?}");
        let another = outcome(&sink).await;
        assert!(matches!(another, Outcome::Unavailable(_)), "{another:?}");
    }
}

// F9: such as a balancer with nothing behind it.
#[tokio::test]
async fn a_server_that_closes_every_connection_is_an_outage_whatever_is_sent() {
    let sink = server(|stream, _| async move { drop(stream) }).await;
    let event = event().await;
    for _ in 0..30 {
        let outcome = sink.deliver(event.clone()).await;
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    }
}

// Some let nothing through but what they know.
#[tokio::test]
async fn an_endpoint_that_never_answers_to_a_head_is_used_again_all_the_same() {
    let sink = server(|mut stream, number| async move {
        while read_request(&mut stream)
            .await
            .is_some_and(|method| method == "post")
        {
            // The first call is cut.
            match number {
                0 => return,
                _ => say(&mut stream, "HTTP/1.1 204 Done\r\n\r\n").await,
            }
        }
    })
    .await;
    let event = event().await;
    let mut tries = 0;
    while sink.deliver(event.clone()).await != Outcome::Delivered {
        tries += 1;
        assert!(tries < 20);
    }
    assert!(tries > 1);
}

#[tokio::test]
async fn a_connection_that_is_cut_after_the_status_was_answered() {
    let sink = server(|mut stream, _| async move {
        read_request(&mut stream).await;
        say(
            &mut stream,
            "HTTP/1.1 202 Accepted\r\ncontent-length: 100\r\n\r\npart",
        )
        .await;
    })
    .await;
    assert_eq!(outcome(&sink).await, Outcome::Delivered);
}

#[tokio::test]
async fn what_is_no_http_is_no_delivery() {
    let sink = server(|mut stream, _| async move {
        read_request(&mut stream).await;
        say(&mut stream, "SSH-2.0-OpenSSH_9.2\r\n").await;
    })
    .await;
    assert_ne!(outcome(&sink).await, Outcome::Delivered);
}

// A connection that the server closed while it was idle is noticed, and costs nothing.
#[tokio::test]
async fn a_connection_closed_between_two_calls_is_replaced() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    let sink = server(move |mut stream, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            if read_request(&mut stream).await.is_some() {
                // Kept alive, or so it says.
                say(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            }
        }
    })
    .await;
    for _ in 0..20 {
        assert_eq!(outcome(&sink).await, Outcome::Delivered);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(connections.load(Ordering::SeqCst), 20);
}

#[tokio::test]
async fn connections_are_used_again() {
    let endpoint = Endpoint::answering(|_| {
        Response::builder()
            .status(200)
            .body(Full::from("thank you"))
            .unwrap()
    })
    .await;
    let sink = endpoint.sink();
    for _ in 0..50 {
        assert_eq!(outcome(&sink).await, Outcome::Delivered);
    }
    assert!(endpoint.calls().iter().all(|call| call.connection == 0));
}

#[tokio::test]
async fn a_refusal_that_comes_before_the_whole_body_was_sent_is_heard() {
    let sink = server(|mut stream, _| async move {
        let mut chunk = [0; 1024];
        let _ = stream.read(&mut chunk).await;
        say(
            &mut stream,
            "HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        )
        .await;
        // Reads on for a while, as good servers do, so that the answer is not cut off.
        let mut sunk = vec![0; 64 * 1024];
        while let Ok(Ok(1..)) =
            tokio::time::timeout(Duration::from_millis(500), stream.read(&mut sunk)).await
        {}
    })
    .await;
    let large = Message::bytes(
        "shop.order.placed.v1",
        "text/plain",
        vec![b'x'; 1024 * 1024],
    );
    let outcome = sink.deliver(event_of(large).await).await;
    assert!(
        matches!(&outcome, Outcome::Reject(why) if why.contains("413")),
        "{outcome:?}"
    );
}

// F9
#[tokio::test]
async fn a_server_that_cannot_be_reached_is_unavailable() {
    let address = {
        let listener = TcpListener::bind(own_address()).await.unwrap();
        listener.local_addr().unwrap()
    };
    for url in [
        format!("http://{address}/"),
        format!("https://{address}/"),
        "http://no-such-host.invalid/".to_owned(),
    ] {
        let sink = Http::builder(&url).allow("127.0.0.0/8").build().unwrap();
        let outcome = outcome(&sink).await;
        assert!(
            matches!(&outcome, Outcome::Unavailable(why) if why.contains("cannot connect")),
            "{outcome:?}"
        );
    }
}

// F9: a handshake that never ends is part of connecting.
#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_to_a_handshake_is_unavailable() {
    let silent = Arc::new(Mutex::new(Vec::new()));
    let listener = TcpListener::bind(own_address()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let kept = silent.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            kept.lock().unwrap().push(stream);
        }
    });
    let builder = Http::builder(format!("https://{address}/")).allow("127.0.0.0/8");
    let sink = builder
        .connect_timeout(Duration::from_millis(300))
        .build()
        .unwrap();
    let outcome = outcome(&sink).await;
    assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    assert!(!silent.lock().unwrap().is_empty());
}
