//! Mini Chat: a chat whose turns cost tokens, and whose usage is billed by events.
//!
//! The modules follow a turn. [`Chat`] reserves quota for it and, when it ends, settles the quota and
//! enqueues its [`Usage`] in one transaction. The [`Dispatcher`] publishes the event from the same
//! process. [`Billing`] charges each turn once, however often its event arrives. [`Totals`] proves
//! that they agree.

mod billing;
mod chat;
mod configuration;
mod dispatcher;
mod totals;
mod usage;

pub use billing::{Billing, Charge, ChargeError};
pub use chat::{ANSWER_LIMIT, Chat, ChatError, Ending, OUTBOX, PROMPT_LIMIT, Request, Settled};
pub use configuration::{ConfigurationError, configured, parse_duration, settings};
pub use dispatcher::{Dispatcher, DispatcherError};
pub use totals::Totals;
pub use usage::{KeyError, NAMESPACE, TOPIC, TurnKey, TurnOutcome, Usage};
