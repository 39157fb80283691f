//! What the codes of librdkafka and of brokers mean for an event.

use rdkafka::types::RDKafkaErrorCode as Code;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The record, or the batch in which it was, is too large.
    TooLarge,
    /// It will never be taken.
    Refused,
    /// It was in a batch of which others were refused.
    Beside,
    /// By the clock of the broker, that of this machine is wrong: records have the time of their delivery.
    Clock,
    /// The topic, or its partition, is not there.
    NoTopic,
    /// The topic may not be written to.
    NotAllowed,
    /// It was not acknowledged in time.
    Late,
    /// The cluster cannot be used, which has nothing to do with the event.
    Down,
    /// Something else, that may pass.
    Passing,
}

pub(super) fn meaning(code: Code) -> Meaning {
    match code {
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize => {
            Meaning::TooLarge
        }
        Code::InvalidTopic
        | Code::InvalidRecord
        | Code::PolicyViolation
        | Code::UnsupportedForMessageFormat => Meaning::Refused,
        Code::InvalidDifferentRecord => Meaning::Beside,
        Code::InvalidTimestamp => Meaning::Clock,
        Code::UnknownTopic
        | Code::UnknownPartition
        | Code::UnknownTopicOrPartition
        | Code::UnknownTopicId => Meaning::NoTopic,
        Code::TopicAuthorizationFailed => Meaning::NotAllowed,
        Code::MessageTimedOut
        | Code::OperationTimedOut
        | Code::TimedOutQueue
        | Code::RequestTimedOut
        | Code::ISRInsufficient
        | Code::NotEnoughReplicas
        | Code::NotEnoughReplicasAfterAppend => Meaning::Late,
        // The producer is at its end, and so is all that it had in hand.
        Code::PurgeQueue
        | Code::PurgeInflight
        | Code::Fatal
        | Code::Fenced
        | Code::State
        | Code::GaplessGuarantee
        | Code::OutOfOrderSequenceNumber
        | Code::DuplicateSequenceNumber
        | Code::InvalidProducerEpoch
        | Code::UnknownProducerId
        // There is no connection.
        | Code::AllBrokersDown
        | Code::BrokerTransportFailure
        | Code::BrokerDestroy
        | Code::DestroyBroker
        | Code::Resolve
        | Code::SSL
        | Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::ClusterAuthorizationFailed => Meaning::Down,
        _ => Meaning::Passing,
    }
}

impl Meaning {
    /// Whether another record of its batch may be what it is about.
    pub(super) fn is_of_a_batch(self) -> bool {
        matches!(
            self,
            Self::TooLarge | Self::Refused | Self::Beside | Self::Clock
        )
    }
}

/// A text of librdkafka or a broker, without what must not be told.
pub(super) fn told(text: &str, untold: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in untold.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret.as_str(), "***");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // F6 F9
    #[test]
    fn only_what_can_never_succeed_is_refused_and_an_outage_is_nobodys_fault() {
        for (code, expected) in [
            (Code::MessageSizeTooLarge, Meaning::TooLarge),
            (Code::InvalidRecord, Meaning::Refused),
            (Code::InvalidDifferentRecord, Meaning::Beside),
            (Code::InvalidTimestamp, Meaning::Clock),
            // An answer that makes no sense, and a checksum that is wrong, say nothing about the record.
            (Code::BadMessage, Meaning::Passing),
            (Code::InvalidMessage, Meaning::Passing),
            (Code::UnknownTopic, Meaning::NoTopic),
            (Code::TopicAuthorizationFailed, Meaning::NotAllowed),
            (Code::MessageTimedOut, Meaning::Late),
            (Code::PurgeInflight, Meaning::Down),
            (Code::Fatal, Meaning::Down),
            (Code::ThrottlingQuotaExceeded, Meaning::Passing),
        ] {
            assert_eq!(meaning(code), expected, "{code}");
        }
    }

    // B13
    #[test]
    fn a_secret_is_never_told() {
        let untold = ["hunter2".to_owned(), String::new()];
        assert_eq!(told("bad password hunter2!", &untold), "bad password ***!");
    }
}
