//! RabbitMQ: each event is one persistent, mandatory message, which the server confirms.
//!
//! A confirmation, with the message not returned, is what makes an event delivered. One task owns
//! the connection and publishes what it is handed, so that many deliveries share one channel.

mod connect;
mod job;
mod line;
mod message;
mod recover;
mod refusal;
mod returns;
mod settings;
mod socket;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use posthaste::Event;
use tokio::sync::{mpsc, oneshot};

pub use settings::RabbitMqBuilder;

use self::connect::Post;
use self::job::{Fate, Job};
use super::suspects::Suspects;
use super::{Outcome, Sink};

/// Publishes events to an exchange. See [`RabbitMq::builder`].
pub struct RabbitMq {
    post: Arc<Post>,
    /// To the task that owns the connection, once there is one.
    jobs: Mutex<Option<mpsc::UnboundedSender<Job>>>,
    suspects: Suspects,
}

impl RabbitMq {
    /// Sets up an exchange of the server at `amqp://user:password@host:port/vhost`, or `amqps` for
    /// TLS. The exchange may be a template. If it is empty, it is the server's default exchange,
    /// whose routing keys are names of queues.
    ///
    /// ```
    /// # fn main() -> Result<(), posthaste_relay::sink::SinkError> {
    /// use posthaste_relay::sink::RabbitMq;
    ///
    /// let sink = RabbitMq::builder("amqp://shop:secret@mq.example/shop", "orders")
    ///     .routing_key("{aggregate_type|none}.{topic}")
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn builder(url: impl Into<String>, exchange: impl Into<String>) -> RabbitMqBuilder {
        RabbitMqBuilder::new(url.into(), exchange.into())
    }

    /// Hands a job to the task that owns the connection. It is started here, not when the sink is
    /// made: only now is there surely a runtime.
    fn hand(&self, job: Job) {
        let mut jobs = self.jobs.lock().expect("not poisoned");
        let refused = match &*jobs {
            Some(jobs) => jobs.send(job).err().map(|error| error.0),
            None => Some(job),
        };
        // There is none, or the runtime that it was on is gone.
        if let Some(job) = refused {
            let (sender, receiver) = mpsc::unbounded_channel();
            let _ = sender.send(job);
            tokio::spawn(line::work(self.post.clone(), receiver));
            *jobs = Some(sender);
        }
    }

    fn outcome(&self, event: &Event, fate: Fate) -> Outcome {
        match &fate {
            Fate::Lost(_) | Fate::Down(_) => {}
            _ => self.suspects.cleared(event),
        }
        match fate {
            Fate::Confirmed => Outcome::Delivered,
            Fate::Refused(why) => Outcome::Reject(why),
            // All events of this sink go there: it is not this one's fault.
            Fate::Misdirected(why) if self.post.has_one_exchange() => Outcome::Unavailable(why),
            Fate::Returned(why) | Fate::Misdirected(why) | Fate::Late(why) => Outcome::Retry(why),
            Fate::Lost(why) => self.suspects.disconnected(event, why),
            Fate::Down(why) => Outcome::Unavailable(why),
        }
    }
}

#[async_trait]
impl Sink for RabbitMq {
    fn system(&self) -> &'static str {
        "rabbitmq"
    }

    async fn deliver(&self, event: Arc<Event>) -> Outcome {
        let message = match self.post.writer.message(&event) {
            Ok(message) => message,
            Err(why) => return Outcome::Reject(why),
        };
        let (reply, fate) = oneshot::channel();
        self.hand(Job::new(event.clone(), message, reply));
        let gone = || Fate::Down("the connection's task has ended".to_owned());
        let fate = fate.await.unwrap_or_else(|_| gone());
        self.outcome(&event, fate)
    }

    async fn check(&self) -> Result<String, String> {
        self.post.check().await
    }
}

impl std::fmt::Debug for RabbitMq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RabbitMq({})", self.post)
    }
}

#[cfg(test)]
mod tests;
