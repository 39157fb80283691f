//! What can happen to a server, whichever it is.

use super::{Kafka, Nats, RabbitMq, Redis, Result, Webhook};

/// What can happen to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is killed with SIGKILL.
    Killed,
    /// It is started again, at the same address, with what it had stored.
    Started,
    /// It halts: it keeps its connections, and answers nothing.
    Frozen,
    /// It goes on.
    Thawed,
}

/// A server that things can happen to.
pub trait Mortal {
    /// Lets it happen. When this returns, it has.
    fn meet(&mut self, fate: Fate) -> Result<()>;
}

macro_rules! mortal {
    ($($server:ty)*) => {
        $(impl Mortal for $server {
            fn meet(&mut self, fate: Fate) -> Result<()> {
                match fate {
                    Fate::Killed => self.kill(),
                    Fate::Started => self.start_again(),
                    Fate::Frozen => self.pause(),
                    Fate::Thawed => self.resume(),
                }
            }
        })*
    };
}

mortal!(Kafka Nats RabbitMq Redis Webhook);
