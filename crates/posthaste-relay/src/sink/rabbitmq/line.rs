//! The task that owns the connection: publishes what it is handed, and tells each job its fate.
//!
//! Nothing here waits for one message while others could go. A job whose caller has given up is
//! still seen through, so that its confirmation finds it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation, Event as Told};
use posthaste::Event;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::connect::{Events, Link, NoExchange, Post};
use super::job::{Fate, Job, Out};
use super::message::Message;
use super::refusal::{Refusal, told};
use super::returns::{Returns, Verdict};

/// How many messages are on their way at most.
const WINDOW: usize = 8192;
/// How many jobs are taken before confirmations are looked at again.
const AT_ONCE: usize = 256;
/// For how long an exchange that cannot be used is not asked for again.
const REMEMBERED: Duration = Duration::from_secs(1);
/// So many messages that nobody waits for any more, and the server never confirmed, are enough.
const FORGOTTEN: usize = 1000;

type Answer = (Uuid, lapin::Result<Confirmation>);
type Confirming = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Serves jobs for as long as somebody can hand some in: connects when there are any, and again after
/// a connection broke.
pub(super) async fn work(post: Arc<Post>, mut jobs: mpsc::UnboundedReceiver<Job>) {
    let mut waiting = VecDeque::new();
    loop {
        if waiting.is_empty() {
            match jobs.recv().await {
                Some(job) => waiting.push_back(job),
                None => return,
            }
        }
        match post.connect().await {
            Ok((link, events)) => {
                let line = Line::new(post.clone(), link, events, waiting);
                waiting = line.serve(&mut jobs).await;
            }
            Err(why) => put_off(&mut waiting, &mut jobs, &why),
        }
    }
}

/// Nothing can be sent now.
fn put_off(waiting: &mut VecDeque<Job>, jobs: &mut mpsc::UnboundedReceiver<Job>, why: &str) {
    let handed_in = std::iter::from_fn(|| jobs.try_recv().ok());
    for job in waiting.drain(..).chain(handed_in) {
        job.answer(Fate::Down(why.to_owned()));
    }
}

/// A connection at work.
pub(super) struct Line {
    pub(super) post: Arc<Post>,
    pub(super) link: Link,
    events: Events,
    pub(super) out: HashMap<Uuid, Out>,
    /// Not sent yet: mostly of events that are on their way already. Ids tell returned messages apart, so
    /// there is one at a time.
    behind: VecDeque<Job>,
    pub(super) confirming: FuturesUnordered<Confirming>,
    pub(super) returns: Returns,
    /// Exchanges that are there.
    pub(super) found: HashSet<String>,
    /// Exchanges that cannot be used, since when and why.
    unusable: HashMap<String, (Instant, String)>,
    /// What the server says while it takes nothing.
    blocked: Option<String>,
    /// How large a message may be, once the server said so.
    pub(super) limit: Option<usize>,
    /// When the last confirmation came.
    heard: Instant,
    numbers: u64,
}

/// Why a line ends.
pub(super) enum End {
    /// Nobody can hand in jobs any more.
    Closed,
    Broken(String),
    /// It broke when it was asked for an exchange. The next one may well, too: that is for the relay to try.
    Unfit(String),
}

impl Line {
    fn new(post: Arc<Post>, link: Link, events: Events, waiting: VecDeque<Job>) -> Self {
        Self {
            post,
            link,
            events,
            out: HashMap::new(),
            behind: waiting,
            confirming: FuturesUnordered::new(),
            returns: Returns::default(),
            found: HashSet::new(),
            unusable: HashMap::new(),
            blocked: None,
            limit: None,
            heard: Instant::now(),
            numbers: 0,
        }
    }

    /// Works until the connection breaks, or nobody needs it any more. Gives back what it never sent.
    async fn serve(mut self, jobs: &mut mpsc::UnboundedReceiver<Job>) -> VecDeque<Job> {
        let end = match self.let_through().await {
            Ok(()) => self.take_turns(jobs).await,
            Err(end) => end,
        };
        let why = match end {
            End::Closed => {
                self.link.close(self.post.connect_timeout).await;
                return VecDeque::new();
            }
            End::Broken(why) => why,
            End::Unfit(why) => {
                put_off(&mut self.behind, jobs, &why);
                why
            }
        };
        // What was confirmed before it broke is confirmed.
        while let Some(Some(answer)) = self.confirming.next().now_or_never() {
            let _ = self.note(answer);
        }
        self.settle();
        for out in self.out.values_mut() {
            out.answer(Fate::Lost(why.clone()));
        }
        let is_old = |job: &Job| job.since.elapsed() > self.post.timeout * 2;
        while self.behind.front().is_some_and(is_old) {
            if let Some(job) = self.behind.pop_front() {
                job.answer(Fate::Down(why.clone()));
            }
        }
        self.behind
    }

    async fn take_turns(&mut self, jobs: &mut mpsc::UnboundedReceiver<Job>) -> End {
        let pace = (self.post.timeout / 4).clamp(Duration::from_millis(10), Duration::from_secs(1));
        let mut clock = tokio::time::interval(pace);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let turn = tokio::select! {
                biased;
                event = self.events.next() => self.heed(event).await,
                Some(answer) = self.confirming.next() => self.confirmed(answer).await,
                job = jobs.recv(), if self.confirming.len() < WINDOW => match job {
                    Some(job) => self.publish_some(job, jobs).await,
                    None => Err(End::Closed),
                },
                _ = clock.tick() => self.look_at_the_clock(),
            };
            if let Err(end) = turn {
                return end;
            }
        }
    }

    async fn publish_some(
        &mut self,
        first: Job,
        jobs: &mut mpsc::UnboundedReceiver<Job>,
    ) -> Result<(), End> {
        self.publish(first).await?;
        for _ in 1..AT_ONCE {
            match jobs.try_recv() {
                Ok(job) => self.publish(job).await?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Sends a message on its way, unless it can be answered at once.
    async fn publish(&mut self, job: Job) -> Result<(), End> {
        if job.reply.is_closed() {
            return Ok(());
        }
        if let Some(why) = &self.blocked {
            job.answer(Fate::Down(why.clone()));
            return Ok(());
        }
        // It broke while there was nothing to do: the next connection takes it.
        if !self.link.connection.status().connected() {
            self.behind.push_back(job);
            return Err(End::Broken("the connection has ended".to_owned()));
        }
        let size = job.message.body.len();
        if let Some(limit) = self.limit.filter(|limit| size > *limit) {
            job.answer(too_large(size, limit));
            return Ok(());
        }
        if self.out.contains_key(&job.event.id) {
            self.behind.push_back(job);
            return Ok(());
        }
        if let Some(why) = self.unusable(job.message.exchange.as_str()).await {
            return match why {
                NoExchange::Refused(why) => {
                    job.answer(Fate::Misdirected(why));
                    Ok(())
                }
                NoExchange::Broken(why) => {
                    // A server that only says nothing is not this exchange's fault.
                    let is_silent = self.link.connection.status().connected();
                    job.answer(match is_silent {
                        true => Fate::Down(why.clone()),
                        false => Fate::Lost(why.clone()),
                    });
                    Err(End::Unfit(why))
                }
            };
        }
        self.send(job.event, job.message, Some(job.reply), 0);
        Ok(())
    }

    /// Why this exchange cannot be used, if it cannot.
    async fn unusable(&mut self, exchange: &str) -> Option<NoExchange> {
        // One for all events was looked at when the connection was made.
        if self.post.has_one_exchange() || self.found.contains(exchange) {
            return None;
        }
        if let Some((_, why)) = self
            .unusable
            .get(exchange)
            .filter(|(since, _)| since.elapsed() < REMEMBERED)
        {
            return Some(NoExchange::Refused(why.clone()));
        }
        let finding = self.post.find(&self.link, exchange);
        let found = match tokio::time::timeout(self.post.timeout, finding).await {
            Ok(found) => found,
            Err(_) => Err(NoExchange::Broken(silent(self.post.timeout))),
        };
        match found {
            Ok(()) => {
                self.found.insert(exchange.to_owned());
                None
            }
            Err(why) => {
                if let NoExchange::Refused(why) = &why {
                    let now = Instant::now();
                    self.unusable
                        .retain(|_, (since, _)| since.elapsed() < REMEMBERED);
                    self.unusable
                        .insert(exchange.to_owned(), (now, why.clone()));
                }
                Some(why)
            }
        }
    }

    pub(super) fn send(
        &mut self,
        event: Arc<Event>,
        message: Message,
        reply: Option<oneshot::Sender<Fate>>,
        resends: u8,
    ) {
        self.numbers += 1;
        let confirming = confirmation(self.link.channel.clone(), event.id, message);
        self.confirming.push(Box::pin(confirming));
        let out = Out {
            reply,
            sent: Instant::now(),
            number: self.numbers,
            resends,
            event: event.clone(),
        };
        self.out.insert(event.id, out);
    }

    /// Something happened to the connection.
    async fn heed(&mut self, event: Option<Told>) -> Result<(), End> {
        match event {
            Some(Told::ConnectionBlocked(reason)) => {
                let why = format!("the server takes nothing at the moment: {reason}");
                for out in self.out.values_mut() {
                    out.answer(Fate::Down(why.clone()));
                }
                for job in self.behind.drain(..) {
                    job.answer(Fate::Down(why.clone()));
                }
                self.blocked = Some(why);
                Ok(())
            }
            Some(Told::ConnectionUnblocked) => {
                self.blocked = None;
                self.heard = Instant::now();
                Ok(())
            }
            // The messages say which channel it was, and whose fault.
            Some(Told::Error(error)) if self.link.connection.status().connected() => {
                match self.link.channel.status().connected() {
                    true => Ok(()),
                    false => self.recover(error).await,
                }
            }
            Some(Told::Error(error)) => Err(broken(&error)),
            Some(_) => Ok(()),
            None => Err(End::Broken("the connection has ended".to_owned())),
        }
    }

    /// One confirmation came, and maybe more.
    async fn confirmed(&mut self, first: Answer) -> Result<(), End> {
        let mut trouble = self.note(first).err();
        // All that have come: only then is it certain which were returned. lapin wakes us in the order
        // in which it gives returns to confirmations, so once nobody is ready any more, those before
        // any that we know are known.
        while let Some(Some(answer)) = self.confirming.next().now_or_never() {
            trouble = trouble.or(self.note(answer).err());
        }
        self.settle();
        match trouble {
            Some(error) if Refusal::of(&error).is_some() => self.recover(error).await,
            // The channel is closed, and what closed it is among the events to come.
            Some(_) if self.link.connection.status().connected() => Ok(()),
            Some(error) => Err(broken(&error)),
            None => self.let_through().await,
        }
    }

    /// Notes what a confirmation says.
    pub(super) fn note(&mut self, (id, answer): Answer) -> lapin::Result<()> {
        let (said, beside) = match answer? {
            Confirmation::Ack(beside) => (Verdict::Confirmed, beside),
            Confirmation::Nack(beside) => (Verdict::Nacked, beside),
            Confirmation::NotRequested => {
                let kind = std::io::ErrorKind::Unsupported;
                return Err(std::io::Error::new(kind, "confirmations are off").into());
            }
        };
        self.heard = Instant::now();
        let beside = match beside.as_ref().map(returned) {
            Some(Some(returned)) => Some(returned),
            None => None,
            Some(None) => {
                let kind = std::io::ErrorKind::InvalidData;
                return Err(std::io::Error::new(kind, "a message came back without id").into());
            }
        };
        self.returns.confirmed(id, said, beside);
        Ok(())
    }

    /// Answers those whose fate is certain.
    pub(super) fn settle(&mut self) {
        for (id, verdict) in self.returns.judged() {
            let Some(mut out) = self.out.remove(&id) else {
                continue;
            };
            out.answer(match verdict {
                Verdict::Confirmed => Fate::Confirmed,
                Verdict::Returned(why) => Fate::Returned(why),
                Verdict::Nacked => Fate::Returned(
                    "a queue did not take it (basic.nack): it is full, or its server has trouble"
                        .to_owned(),
                ),
            });
        }
    }

    /// Sends what had to wait for an earlier message with the same id.
    async fn let_through(&mut self) -> Result<(), End> {
        for _ in 0..self.behind.len() {
            if let Some(job) = self.behind.pop_front() {
                self.publish(job).await?;
            }
        }
        Ok(())
    }

    /// Gives up what takes too long; if nothing comes at all, the connection.
    fn look_at_the_clock(&mut self) -> Result<(), End> {
        let timeout = self.post.timeout;
        let why = format!("the server did not confirm it within {timeout:?}");
        let is_late = |job: &Job| job.since.elapsed() > timeout * 2;
        while self.behind.front().is_some_and(is_late) {
            if let Some(job) = self.behind.pop_front() {
                job.answer(Fate::Late(why.clone()));
            }
        }
        if self.blocked.is_some() {
            return Ok(());
        }
        let quiet = self.heard.elapsed();
        let mut waited_for = 0;
        for out in self.out.values_mut() {
            if out.reply.is_some() && out.sent.elapsed() > timeout {
                if quiet > timeout / 2 {
                    return Err(End::Broken(silent(timeout)));
                }
                out.answer(Fate::Late(why.clone()));
            }
            waited_for += usize::from(out.reply.is_some());
        }
        // Some queue never confirms. Only a new connection forgets what is on its way.
        let forgotten = self.out.len() - waited_for;
        let is_over = forgotten > 0 && waited_for == 0 && quiet > timeout;
        match is_over || forgotten > FORGOTTEN {
            true => Err(End::Broken(silent(timeout))),
            false => Ok(()),
        }
    }
}

/// Publishes, and waits for the confirmation. All of it is handed to the connection when this is first
/// polled, so that messages keep their order.
async fn confirmation(channel: Channel, id: Uuid, message: Message) -> Answer {
    let Message {
        exchange,
        routing_key,
        properties,
        body,
    } = message;
    let options = BasicPublishOptions {
        mandatory: true,
        immediate: false,
    };
    let sent = channel.basic_publish(exchange, routing_key, options, &body, properties);
    match sent.await {
        Ok(confirm) => (id, confirm.await),
        Err(error) => (id, Err(error)),
    }
}

/// The id of a message that came back, and why it did.
fn returned(message: &BasicReturnMessage) -> Option<(Uuid, String)> {
    let id = message.properties.message_id().as_ref()?;
    let id = id.as_str().parse().ok()?;
    let (exchange, key) = (message.exchange.as_str(), message.routing_key.as_str());
    let why = match message.reply_code {
        312 if exchange.is_empty() => format!(
            "there is no queue {key:?}, which the default exchange would lead to (312 NO_ROUTE): \
             declare it"
        ),
        312 => format!(
            "no queue is bound to exchange {exchange:?} for routing key {key:?} (312 NO_ROUTE): bind \
             one, or route these events elsewhere"
        ),
        code => format!(
            "the server returned it from exchange {exchange:?} with routing key {key:?}: {} ({code})",
            message.reply_text
        ),
    };
    Some((id, why))
}

pub(super) fn broken(error: &lapin::Error) -> End {
    End::Broken(format!("the connection broke: {}", told(error)))
}

pub(super) fn too_large(size: usize, limit: usize) -> Fate {
    Fate::Refused(format!(
        "{size} bytes are too large: the server takes up to {limit} (max_message_size)"
    ))
}

pub(super) fn silent(timeout: Duration) -> String {
    format!("the server said nothing for {timeout:?}")
}
