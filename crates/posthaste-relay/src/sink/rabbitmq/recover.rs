//! After a channel was closed: whoever is to blame is answered, the others go on as if nothing had been.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::job::{Fate, Out};
use super::line::{End, Line, broken, silent, too_large};
use super::refusal::{Refusal, told};
use super::returns::Returns;

/// How often a message is sent again after a channel was closed because of another.
const RESENDS: u8 = 3;

impl Line {
    /// The channel was closed, mostly because of one message: that one is answered, the others are
    /// sent again on another channel.
    pub(super) async fn recover(&mut self, error: lapin::Error) -> Result<(), End> {
        let Some(refusal) = Refusal::of(&error) else {
            return Err(broken(&error));
        };
        // Some were confirmed before; the rest is told the same error.
        let patience = self.post.timeout;
        let rest = async {
            while let Some(answer) = self.confirming.next().await {
                let _ = self.note(answer);
            }
        };
        let _ = tokio::time::timeout(patience, rest).await;
        self.settle();
        self.confirming = FuturesUnordered::new();
        self.returns = Returns::default();
        if let Refusal::TooLarge { limit, .. } = refusal {
            self.limit = Some(limit);
        }
        let mut out: Vec<Out> = self.out.drain().map(|(_, out)| out).collect();
        out.retain(|out| out.reply.as_ref().is_some_and(|reply| !reply.is_closed()));
        out.sort_unstable_by_key(|out| out.number);
        let replacing = self.link.replace_channel();
        let replaced = tokio::time::timeout(self.post.timeout, replacing).await;
        let trouble = match &replaced {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("the connection broke: {}", told(error))),
            Err(_) => Some(silent(self.post.timeout)),
        };
        let said = told(&error);
        for mut out in out {
            let message = match self.post.writer.message(&out.event) {
                Ok(message) => message,
                Err(why) => {
                    out.answer(Fate::Refused(why));
                    continue;
                }
            };
            let (exchange, size) = (message.exchange.as_str(), message.body.len());
            if refusal.means(exchange, message.routing_key.as_str(), size) {
                self.found.remove(exchange);
                out.answer(match &refusal {
                    Refusal::TooLarge { limit, .. } => too_large(size, *limit),
                    // Others go other ways.
                    Refusal::RoutingKey(_) => Fate::Returned(said.clone()),
                    _ => Fate::Misdirected(said.clone()),
                });
            } else if let Some(why) = &trouble {
                out.answer(Fate::Lost(why.clone()));
            } else if out.resends >= RESENDS || matches!(refusal, Refusal::Other(_)) {
                out.answer(Fate::Lost(format!("the channel was closed: {said}")));
            } else {
                self.send(out.event, message, out.reply, out.resends + 1);
            }
        }
        match trouble {
            Some(why) => Err(End::Broken(why)),
            None => Ok(()),
        }
    }
}
