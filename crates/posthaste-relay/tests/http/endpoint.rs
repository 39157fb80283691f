//! An HTTP server to call, at an address of its own, that can go down and come back.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use posthaste::{Event, Message};
use posthaste_relay::Envelope;
use posthaste_relay::sink::http::HttpBuilder;
use posthaste_relay::sink::{Http, Outcome, Sink};
use posthaste_testkit::sink_contract;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// One call as it came.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) version: http::Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// On which connection it came.
    pub(crate) connection: usize,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub(crate) type Answer = Response<Full<Bytes>>;

/// How long to take, and what to say then.
type Answering = dyn Fn(&Call) -> (Duration, Answer) + Send + Sync;

pub(crate) fn status(code: u16) -> Answer {
    Response::builder()
        .status(code)
        .body(Full::default())
        .unwrap()
}

/// What a server does: remembers calls, and answers them.
struct Behaviour {
    calls: Mutex<Vec<Call>>,
    answer: Box<Answering>,
    tls: Option<TlsAcceptor>,
    under_way: Mutex<(usize, usize)>,
}

pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    behaviour: Arc<Behaviour>,
    server: Mutex<Option<JoinHandle<()>>>,
}

impl Endpoint {
    /// Answers every call with 204.
    pub(crate) async fn willing() -> Self {
        Self::answering(|_| status(204)).await
    }

    /// The same, where the name localhost leads.
    pub(crate) async fn at_localhost() -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::at(address, |_| (Duration::ZERO, status(204)), None).await
    }

    pub(crate) async fn answering(
        answer: impl Fn(&Call) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |call| (Duration::ZERO, answer(call)), None).await
    }

    /// Answers after a while.
    pub(crate) async fn new(
        answer: impl Fn(&Call) -> (Duration, Answer) + Send + Sync + 'static,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        Self::at(own_address(), answer, tls).await
    }

    pub(crate) async fn at(
        address: SocketAddr,
        answer: impl Fn(&Call) -> (Duration, Answer) + Send + Sync + 'static,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let behaviour = Arc::new(Behaviour {
            calls: Mutex::default(),
            answer: Box::new(answer),
            tls,
            under_way: Mutex::default(),
        });
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, behaviour.clone()));
        Self {
            address,
            behaviour,
            server: Mutex::new(Some(server)),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.behaviour.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}{path}", self.address)
    }

    /// A sink to this endpoint, which may be dialled.
    pub(crate) fn builder(&self) -> HttpBuilder {
        Http::builder(self.url("/hook")).allow("127.0.0.0/8")
    }

    pub(crate) fn sink(&self) -> Http {
        self.builder().build().unwrap()
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.behaviour.calls.lock().unwrap().clone()
    }

    /// How many calls were under way at the same time, at most.
    pub(crate) fn most_at_once(&self) -> usize {
        self.behaviour.under_way.lock().unwrap().1
    }

    /// Closes the listener and cuts every connection.
    pub(crate) async fn stop(&self) {
        let server = self.server.lock().unwrap().take();
        if let Some(server) = server {
            server.abort();
            let _ = server.await;
        }
    }

    pub(crate) async fn start(&self) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.address).unwrap();
        let listener = socket.listen(1024).unwrap();
        let server = tokio::spawn(serve(listener, self.behaviour.clone()));
        *self.server.lock().unwrap() = Some(server);
    }
}

/// Somewhere in 127.0.0.0/8, so that nobody else gets the port while the server is down.
pub(crate) fn own_address() -> SocketAddr {
    let [a, b, c, ..] = *uuid::Uuid::new_v4().as_bytes();
    SocketAddr::from(([127, a, b, c.clamp(1, 254)], 0))
}

async fn serve(listener: TcpListener, behaviour: Arc<Behaviour>) {
    // Ends with this task.
    let mut connections = JoinSet::new();
    for connection in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        let behaviour = behaviour.clone();
        connections.spawn(async move {
            match behaviour.tls.clone() {
                None => converse(stream, behaviour, connection).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        converse(stream, behaviour, connection).await;
                    }
                }
            }
        });
    }
}

async fn converse<S>(stream: S, behaviour: Arc<Behaviour>, connection: usize)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let behaviour = behaviour.clone();
        async move { Ok::<_, Infallible>(behaviour.call(request, connection).await) }
    });
    let _ = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Behaviour {
    async fn call(&self, request: Request<Incoming>, connection: usize) -> Answer {
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else {
            return status(400);
        };
        let call = Call {
            method: head.method.to_string(),
            path: head.uri.path_and_query().unwrap().to_string(),
            version: head.version,
            headers: head.headers,
            body: body.to_bytes().to_vec(),
            connection,
        };
        let (pause, answer) = (self.answer)(&call);
        self.change(1);
        tokio::time::sleep(pause).await;
        self.change(-1);
        if answer.status().is_success() && call.method == "POST" {
            self.calls.lock().unwrap().push(call);
        }
        answer
    }

    fn change(&self, by: isize) {
        let mut under_way = self.under_way.lock().unwrap();
        under_way.0 = under_way.0.strict_add_signed(by);
        under_way.1 = under_way.1.max(under_way.0);
    }
}

/// An event to deliver.
pub(crate) async fn event() -> Arc<Event> {
    event_of(sink_contract::full()).await
}

pub(crate) async fn event_of(message: Message) -> Arc<Event> {
    sink_contract::events(&[message]).await.remove(0)
}

pub(crate) async fn outcome(sink: &Http) -> Outcome {
    sink.deliver(event().await).await
}

pub(crate) fn raw(builder: HttpBuilder) -> Http {
    builder.envelope(Envelope::raw()).build().unwrap()
}
