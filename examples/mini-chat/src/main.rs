//! Mini Chat at work for some seconds: users chat, two dispatchers publish, and billing charges
//! every turn once, though every fifth acknowledgement is lost on its way.
//!
//!     cargo xtask example mini-chat [--for 30s]
//!     DATABASE_URL=postgres://localhost/chat cargo run -p mini-chat

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mini_chat::{
    Billing, Chat, ChatError, Dispatcher, Ending, Request, Totals, configured, parse_duration,
};
use posthaste::Event;
use posthaste_relay::sink::{self, Outcome, Sink};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The tokens of each tenant. One of them cannot afford much.
const GRANTS: [i64; 3] = [1_000_000, 1_000_000, 500];
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result {
    let time = time(std::env::args().skip(1))?;
    let address = std::env::var("DATABASE_URL")
        .map_err(|_| "set DATABASE_URL, or run `cargo xtask example mini-chat`")?;
    let settings = configured(|name| std::env::var(name).ok())?;
    let chat = Chat::open(&address).await?;
    let billing = Arc::new(Billing::open(&address)?);

    // Two replicas: each event is published by one of them.
    let shutdown = CancellationToken::new();
    let mut dispatchers = Vec::new();
    for _ in 0..2 {
        let publish = forgetful(billing.clone().sink());
        let token = shutdown.clone();
        dispatchers.push(Dispatcher::start(&address, settings.clone(), publish, token).await?);
    }
    println!(
        "chatting for {time:?}, with {} tenants and 2 dispatchers",
        GRANTS.len()
    );

    let end = Instant::now() + time;
    let mut users = tokio::task::JoinSet::new();
    for grant in GRANTS {
        let tenant_id = Uuid::new_v4();
        chat.grant(tenant_id, grant).await?;
        users.spawn(talk(chat.clone(), tenant_id, end));
    }
    let (mut refused, mut again) = (0, 0);
    while let Some(user) = users.join_next().await {
        let (no_quota, settled_again) = user??;
        refused += no_quota;
        again += settled_again;
    }

    // What is committed arrives: wait for it, then stop.
    let patience = Instant::now() + PATIENCE;
    let mut totals = Totals::of(&address).await?;
    while !totals.agree() && Instant::now() < patience {
        tokio::time::sleep(Duration::from_millis(100)).await;
        totals = Totals::of(&address).await?;
    }
    shutdown.cancel();
    for dispatcher in dispatchers {
        dispatcher.stopped().await;
    }
    println!("turns refused    {refused:>6}  (no quota left, and so no event)");
    println!("settled twice    {again:>6}  (already enqueued, and so no second event)");
    println!("{totals}");
    if !totals.agree() {
        return Err("turns and charges do not agree".into());
    }
    println!("Nothing was lost: each settled turn was charged, and once.");
    Ok(())
}

/// A user who asks until the time is up. Gives back how many turns were refused, and how many
/// were settled a second time.
async fn talk(chat: Chat, tenant_id: Uuid, end: Instant) -> Result<(u64, u64)> {
    let (mut refused, mut again) = (0, 0);
    for number in 0_u64.. {
        if Instant::now() >= end {
            break;
        }
        let request = Request {
            tenant_id,
            request_id: Uuid::new_v4(),
            prompt: format!("question {number}: how do you do?"),
        };
        let turn = match chat.begin(&request).await {
            Ok(turn) => turn,
            Err(ChatError::QuotaExceeded { .. }) => {
                refused += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let ending = match number % 7 {
            0 => Ending::Failed,
            1 => Ending::Aborted("I do rather".to_owned()),
            _ => Ending::Completed("I do rather well, and thank you for asking!".to_owned()),
        };
        chat.settle(turn, &ending).await?;
        if number % 10 == 0 {
            // As if the answer to the first call had been lost.
            again += u64::from(!chat.settle(turn, &ending).await?.new);
        }
    }
    Ok((refused, again))
}

/// Publishes, and then loses every fifth acknowledgement of a first attempt.
fn forgetful(publish: impl Sink) -> impl Sink {
    let publish = Arc::new(publish);
    sink::from_fn(move |event: Arc<Event>| {
        let publish = publish.clone();
        async move {
            match publish.deliver(event.clone()).await {
                Outcome::Delivered if event.attempts == 1 && event.sequence % 5 == 0 => {
                    Outcome::Retry("the acknowledgement was lost".to_owned())
                }
                outcome => outcome,
            }
        }
    })
}

/// How long to chat: `--for 30s`, by default three seconds.
fn time(mut arguments: impl Iterator<Item = String>) -> Result<Duration> {
    let usage = "the only argument is `--for`, with a time such as 30s or 1.5s";
    match (
        arguments.next().as_deref(),
        arguments.next(),
        arguments.next(),
    ) {
        (None, ..) => Ok(Duration::from_secs(3)),
        (Some("--for"), Some(time), None) => Ok(parse_duration(&time).ok_or(usage)?),
        _ => Err(usage.into()),
    }
}
