//! The chat: turns begin by reserving quota, and end by settling it, together with their event.
//!
//! It enqueues and goes on. Who publishes the events, and when, it does not know.

use deadpool_postgres::{Manager, Pool, PoolError, Transaction};
use posthaste::{EnqueueError, Outbox, StoreError, TableError, schema};
use serde::{Deserialize, Serialize};
use tokio_postgres::NoTls;
use uuid::Uuid;

use crate::usage::{TurnKey, TurnOutcome, Usage};

/// The table that all modules of this service share, each under a namespace of its own.
pub const OUTBOX: &str = "public.modkit_outbox_events";
/// The longest prompt, in tokens.
pub const PROMPT_LIMIT: i64 = 200;
/// The longest answer, in tokens: what is reserved for it.
pub const ANSWER_LIMIT: i64 = 100;

/// Far more than one service needs, and far fewer than a server has.
const CONNECTIONS: usize = 8;
/// Any number, the same in every process: one at a time makes the tables.
const SET_UP: i64 = 0x6d69_6e69;

/// What a client asks for. What it costs is not the client's to say.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Who pays.
    pub tenant_id: Uuid,
    /// The client's own id of this request: asking again makes no second turn.
    pub request_id: Uuid,
    /// What is asked.
    pub prompt: String,
}

/// How the answer to a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// With this answer.
    Completed(String),
    /// The user stopped it, after this part of an answer.
    Aborted(String),
    /// There is none. Costs nothing.
    Failed,
}

/// What became of a turn that was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// What it cost.
    pub usage: Usage,
    /// The event that tells so.
    pub event: Uuid,
    /// Whether this call enqueued it (`false`: it was already enqueued, and nothing was changed).
    pub new: bool,
}

/// Why the chat did not do as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// There is nothing to answer.
    #[error("the prompt is empty: ask something")]
    PromptEmpty,
    /// There is too much to answer.
    #[error("the prompt has {tokens} tokens, more than the limit of {PROMPT_LIMIT}: shorten it")]
    PromptTooLong {
        /// As long as it is.
        tokens: i64,
    },
    /// The tenant cannot pay for the turn.
    #[error("tenant {tenant_id} has too little quota left for this turn: grant it more")]
    QuotaExceeded {
        /// Who that is.
        tenant_id: Uuid,
    },
    /// There is no such turn.
    #[error("there is no turn {0}: begin it first")]
    TurnUnknown(Uuid),
    /// The event was refused.
    #[error("the event was not enqueued: {0}")]
    Enqueue(#[from] EnqueueError),
    /// The outbox is not as it must be.
    #[error("the outbox cannot be used: {0}")]
    Outbox(#[from] StoreError),
    /// The outbox cannot have this name.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The database is not reachable.
    #[error("the database is not reachable: check DATABASE_URL")]
    Unreachable(#[from] PoolError),
    /// The database refused a statement.
    #[error("the database refused a statement")]
    Database(#[from] tokio_postgres::Error),
}

/// The chat of all tenants.
#[derive(Clone)]
pub struct Chat {
    pool: Pool,
    outbox: Outbox,
}

impl Chat {
    /// The chat in this database. Makes what is missing there.
    pub async fn open(address: &str) -> Result<Self, ChatError> {
        let outbox = Outbox::new(OUTBOX)?;
        schema::apply_at(address, outbox.table()).await?;
        let pool = connect(address)?;
        let mut client = pool.get().await?;
        let transaction = client.transaction().await?;
        let lock = "select pg_advisory_xact_lock($1)";
        transaction.execute(lock, &[&SET_UP]).await?;
        transaction
            .batch_execute(include_str!("schema.sql"))
            .await?;
        transaction.commit().await?;
        Ok(Self { pool, outbox })
    }

    /// Lets a tenant use this many tokens more.
    pub async fn grant(&self, tenant_id: Uuid, tokens: i64) -> Result<(), ChatError> {
        let grant = "insert into chat.quotas as q (tenant_id, granted) values ($1, $2)
                     on conflict (tenant_id) do update set granted = q.granted + excluded.granted";
        let client = self.pool.get().await?;
        client.execute(grant, &[&tenant_id, &tokens]).await?;
        Ok(())
    }

    /// Begins a turn: reserves quota for the longest answer. Gives back the turn, the same one if
    /// the request was made before. A turn that is refused leaves nothing behind, and no event.
    pub async fn begin(&self, request: &Request) -> Result<Uuid, ChatError> {
        let prompt = tokens(&request.prompt);
        match prompt {
            0 => return Err(ChatError::PromptEmpty),
            1..=PROMPT_LIMIT => {}
            tokens => return Err(ChatError::PromptTooLong { tokens }),
        }
        let (tenant_id, request_id) = (request.tenant_id, request.request_id);
        let reserved = prompt + ANSWER_LIMIT;
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        let turn = Uuid::now_v7();
        let insert = "insert into chat.turns (id, tenant_id, request_id, prompt, reserved)
                      values ($1, $2, $3, $4, $5) on conflict (tenant_id, request_id) do nothing";
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&turn, &tenant_id, &request_id, &request.prompt, &reserved];
        if transaction.execute(insert, &values).await? == 0 {
            let select = "select id from chat.turns where tenant_id = $1 and request_id = $2";
            let row = transaction
                .query_one(select, &[&tenant_id, &request_id])
                .await?;
            return Ok(row.get(0));
        }
        let reserve = "update chat.quotas set reserved = reserved + $2
                       where tenant_id = $1 and used + reserved + $2 <= granted";
        if transaction
            .execute(reserve, &[&tenant_id, &reserved])
            .await?
            == 0
        {
            return Err(ChatError::QuotaExceeded { tenant_id });
        }
        transaction.commit().await?;
        Ok(turn)
    }

    /// Ends a turn, in a transaction of its own: see [`settle_in`](Self::settle_in).
    pub async fn settle(&self, turn: Uuid, ending: &Ending) -> Result<Settled, ChatError> {
        let mut client = self.pool.get().await?;
        let transaction = client.transaction().await?;
        let settled = self.settle_in(&transaction, turn, ending).await?;
        transaction.commit().await?;
        Ok(settled)
    }

    /// Ends a turn, in the caller's transaction: what it cost is taken from the quota, the rest of
    /// the reserve is given back, and the event that tells so is enqueued. All of it is there after
    /// the commit, or nothing is.
    ///
    /// The first ending counts. Settling again changes nothing, and finds the event that is there.
    pub async fn settle_in(
        &self,
        transaction: &Transaction<'_>,
        turn: Uuid,
        ending: &Ending,
    ) -> Result<Settled, ChatError> {
        // Locked, so that whoever settles the same turn waits for us, and sees what we did.
        let select = "select tenant_id, request_id, prompt, reserved, outcome, tokens
                      from chat.turns where id = $1 for update";
        let row = transaction.query_opt(select, &[&turn]).await?;
        let row = row.ok_or(ChatError::TurnUnknown(turn))?;
        let key = TurnKey {
            tenant_id: row.get("tenant_id"),
            turn_id: turn,
            request_id: row.get("request_id"),
        };
        let before = row.get::<_, Option<&str>>("outcome");
        let usage = match before.and_then(TurnOutcome::parse) {
            Some(outcome) => Usage {
                key,
                outcome,
                tokens: row.get("tokens"),
            },
            None => {
                let usage = cost(key, row.get("prompt"), ending);
                end(transaction, &usage, ending, row.get("reserved")).await?;
                usage
            }
        };
        let receipt = self.outbox.enqueue(transaction, &usage.message()?).await?;
        Ok(Settled {
            usage,
            event: receipt.id,
            new: receipt.new,
        })
    }

    /// What a tenant has used so far: a question, which makes no event.
    pub async fn used(&self, tenant_id: Uuid) -> Result<i64, ChatError> {
        let select = "select used from chat.quotas where tenant_id = $1";
        let client = self.pool.get().await?;
        let row = client.query_opt(select, &[&tenant_id]).await?;
        Ok(row.map_or(0, |row| row.get(0)))
    }
}

/// What a turn costs, by what we have of it: never by what a client says.
fn cost(key: TurnKey, prompt: &str, ending: &Ending) -> Usage {
    let (outcome, tokens) = match ending {
        Ending::Completed(answer) => (TurnOutcome::Completed, tokens(prompt) + tokens(answer)),
        Ending::Aborted(answer) => (TurnOutcome::Aborted, tokens(prompt) + tokens(answer)),
        Ending::Failed => (TurnOutcome::Failed, 0),
    };
    Usage {
        key,
        outcome,
        tokens,
    }
}

async fn end(
    transaction: &Transaction<'_>,
    usage: &Usage,
    ending: &Ending,
    reserved: i64,
) -> Result<(), ChatError> {
    let answer = match ending {
        Ending::Completed(answer) | Ending::Aborted(answer) => Some(answer),
        Ending::Failed => None,
    };
    let turn = "update chat.turns set outcome = $2, tokens = $3, answer = $4 where id = $1";
    let outcome = usage.outcome.as_str();
    transaction
        .execute(
            turn,
            &[&usage.key.turn_id, &outcome, &usage.tokens, &answer],
        )
        .await?;
    let quota =
        "update chat.quotas set used = used + $2, reserved = reserved - $3 where tenant_id = $1";
    transaction
        .execute(quota, &[&usage.key.tenant_id, &usage.tokens, &reserved])
        .await?;
    Ok(())
}

/// A word is a token here.
fn tokens(text: &str) -> i64 {
    i64::try_from(text.split_whitespace().count()).unwrap_or(i64::MAX)
}

/// Connections to the database at this address.
pub(crate) fn connect(address: &str) -> Result<Pool, tokio_postgres::Error> {
    let manager = Manager::new(address.parse()?, NoTls);
    let pool = Pool::builder(manager).max_size(CONNECTIONS);
    Ok(pool
        .build()
        .expect("a pool without timeouts needs no runtime"))
}
