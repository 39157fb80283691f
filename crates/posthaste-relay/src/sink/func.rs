//! A closure as a sink.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use posthaste::Event;

use super::{Outcome, Sink};

/// See [`from_fn`].
#[derive(Debug, Clone)]
pub struct FromFn<F>(F);

/// Delivers by calling a function, which gives back an [`Outcome`] or a `Result<(), E>`.
///
/// ```
/// use posthaste_relay::sink;
///
/// let sink = sink::from_fn(|event| async move {
///     println!("{} {}", event.topic, event.id);
///     Ok::<(), std::io::Error>(())
/// });
/// ```
pub fn from_fn<F, Answer, R>(function: F) -> FromFn<F>
where
    F: Fn(Arc<Event>) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = R> + Send,
    R: Into<Outcome>,
{
    FromFn(function)
}

#[async_trait]
impl<F, Answer, R> Sink for FromFn<F>
where
    F: Fn(Arc<Event>) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = R> + Send,
    R: Into<Outcome>,
{
    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        (self.0)(event).await.into()
    }
}
