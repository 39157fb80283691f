//! Webhooks on loopback, to an endpoint in a process of its own.

use std::convert::Infallible;
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use posthaste::Event;
use posthaste::store::connect;
use posthaste_relay::envelope::Binding;
use posthaste_relay::sink::{Http, Outcome, Sink};
use posthaste_relay::{Envelope, Relay};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use super::{Sample, compare, flat_out};
use crate::Result;
use crate::bed::Bed;
use crate::drain::{Countdown, Counted};

/// How many calls at a time, on each side.
const CONCURRENCY: usize = 64;
const ENDPOINTS: usize = 50;

/// `posthaste-bench endpoint`: takes every call, and tells its address first.
pub(crate) async fn endpoint() -> Result {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let take = service_fn(|call: Request<Incoming>| async move {
                let _ = call.into_body().collect().await;
                Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
            });
            let io = TokioIo::new(stream);
            let _ = Builder::new(TokioExecutor::new())
                .serve_connection(io, take)
                .await;
        });
    }
}

/// The process, which ends with this, and its address.
async fn start() -> Result<(Child, String)> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("endpoint")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    let address = BufReader::new(output).lines().next_line().await?;
    Ok((child, address.ok_or("the endpoint ended")?))
}

pub(crate) async fn run(bed: &Bed) -> Result {
    let (_process, address) = start().await?;
    let sample = Sample::new(&Envelope::cloud_events(), Binding::Http).await?;
    let mut headers = HeaderMap::new();
    for (name, value) in &sample.headers {
        headers.insert(
            HeaderName::try_from(name.as_str())?,
            HeaderValue::try_from(value.as_str())?,
        );
    }
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls()?)
        .build()?;
    let permits = Semaphore::new(CONCURRENCY);
    let floor = async |events| {
        flat_out(events, |_| {
            let (headers, body) = (headers.clone(), sample.body.clone());
            let call = client.post(&address).headers(headers).body(body);
            let permits = &permits;
            async move {
                let _permit = permits.acquire().await?;
                let answer = call.send().await?.error_for_status()?;
                answer.bytes().await?;
                Ok(())
            }
        })
        .await
    };
    let sink = Http::builder(&address).allow_any_address().build()?;
    let sink = Limited(sink, Semaphore::new(CONCURRENCY));
    compare(bed, "a webhook", sink, floor).await
}

/// Not used, as nothing here is called by https, but a client wants one.
fn tls() -> Result<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}

/// So many at a time.
struct Limited(Http, Semaphore);

#[async_trait]
impl Sink for Limited {
    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let Ok(_permit) = self.1.acquire().await else {
            return Outcome::Unavailable("closed".to_owned());
        };
        self.0.deliver(event).await
    }
}

/// What 49 endpoints get while the fiftieth takes connections and never answers, against what they
/// get while it works.
pub(crate) async fn one_of_fifty_is_dead(bed: &Bed) -> Result {
    let each: i64 = if bed.quick { 200 } else { 1000 };
    let (mut dead, mut alive) = (0.0_f64, 0.0_f64);
    for _ in 0..2 {
        alive = alive.max(fifty(bed, each, false).await?);
        dead = dead.max(fifty(bed, each, true).await?);
    }
    bed.tell(
        "49 webhooks, one more is dead",
        dead,
        "events/s",
        Some(alive),
        json!({"floor": "all 50 alive", "events_each": each, "concurrency": CONCURRENCY, "best_of": 2}),
    );
    Ok(())
}

/// Events per second to the first 49.
async fn fifty(bed: &Bed, each: i64, last_is_dead: bool) -> Result<f64> {
    let (_process, address) = start().await?;
    // Nobody accepts, so the system does, and that is all.
    let deaf = TcpListener::bind("127.0.0.1:0")?;
    let fresh = bed.fresh().await?;
    let fill = fresh.sql(
        "insert into {outbox} (topic, payload) \
         select 'shop.hook-' || n % $2::bigint || '.v1', jsonb_build_object('order', n, 'note', repeat('x', 220)) \
         from generate_series(1, $1::bigint * $2) n",
    );
    let endpoints = i64::try_from(ENDPOINTS)?;
    fresh.client.execute(&fill, &[&each, &endpoints]).await?;
    fresh.settle_down().await?;

    let countdown = Countdown::new((each * (endpoints - 1)).unsigned_abs());
    let mut builder = Relay::builder_on(connect(&bed.url, fresh.table.clone()).await?);
    for n in 0..ENDPOINTS {
        let is_last = n + 1 == ENDPOINTS;
        let address = match is_last && last_is_dead {
            true => format!("http://{}", deaf.local_addr()?),
            false => format!("{address}/{n}"),
        };
        let sink = Http::builder(address).allow_any_address().build()?;
        let name = format!("hook-{n}");
        builder = match is_last {
            true => builder.destination(&name, sink),
            false => builder.destination(&name, Counted(sink, countdown.clone())),
        };
        builder = builder.concurrency(CONCURRENCY);
        builder = builder.route(format!("shop.hook-{n}.v1").as_str(), name);
    }
    let relay = builder.build()?;
    let started = Instant::now();
    let mut took = None;
    tokio::select! {
        () = relay.run(std::future::pending()) => {}
        () = countdown.is_over() => took = Some(started.elapsed()),
    }
    fresh.drop().await?;
    let took = took.ok_or("the relay ended")?;
    Ok((each * (endpoints - 1)) as f64 / took.as_secs_f64())
}
