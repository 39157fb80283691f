//! Domain events: what they are called, what they say, and how they are read again.

use std::collections::BTreeMap;

use posthaste::{EnqueueError, Event, Message};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Something that happened on the farm.
pub trait DomainEvent: Serialize + DeserializeOwned {
    /// Its full name, as in the column EventType.
    const TYPE: &'static str;
    /// Its topic, which is its routing key, too.
    const TOPIC: &'static str;

    /// What is enqueued for it.
    fn message(&self, aggregate: &str, id: Uuid) -> Result<Message, EnqueueError> {
        Ok(Message::json(Self::TOPIC, self)?
            .event_type(Self::TYPE)
            .aggregate(aggregate, id.to_string()))
    }
}

/// A field was sown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CropSown {
    /// The field.
    pub field: Uuid,
    /// What grows there now.
    pub crop: String,
}

impl DomainEvent for CropSown {
    const TYPE: &'static str = "FarmManagement.Domain.Fields.CropSown";
    const TOPIC: &'static str = "farm.field.crop-sown.v1";
}

/// A field was harvested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CropHarvested {
    /// The field.
    pub field: Uuid,
    /// What grew there.
    pub crop: String,
    /// How much of it.
    pub kilograms: i64,
}

impl DomainEvent for CropHarvested {
    const TYPE: &'static str = "FarmManagement.Domain.Fields.CropHarvested";
    const TOPIC: &'static str = "farm.field.crop-harvested.v1";
}

/// A harvest was put into a barn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CropStored {
    /// The barn.
    pub barn: Uuid,
    /// What was put there.
    pub crop: String,
    /// How much of it.
    pub kilograms: i64,
}

impl DomainEvent for CropStored {
    const TYPE: &'static str = "FarmManagement.Domain.Barns.CropStored";
    const TOPIC: &'static str = "farm.barn.crop-stored.v1";
}

type Read = fn(&[u8]) -> Result<(), serde_json::Error>;

/// The events that this version of the program can read.
#[derive(Clone, Default)]
pub struct Catalogue(BTreeMap<&'static str, Read>);

impl Catalogue {
    /// All events of the farm.
    pub fn new() -> Self {
        Self::default()
            .with::<CropSown>()
            .with::<CropHarvested>()
            .with::<CropStored>()
    }

    /// And one more.
    pub fn with<E: DomainEvent>(mut self) -> Self {
        self.0.insert(E::TYPE, |payload| {
            serde_json::from_slice::<E>(payload).map(drop)
        });
        self
    }

    /// Deserialises an event, and says what is wrong if that is not possible. No payload is told.
    pub fn read(&self, event: &Event) -> Result<(), String> {
        let name = event.event_type.as_deref().unwrap_or("(none)");
        let read = self.0.get(name).ok_or_else(|| {
            format!("there is no event type {name}: deploy a version that knows it, then redeliver")
        })?;
        read(&event.payload).map_err(|error| {
            format!(
                "this is no {name} (line {}, column {}): mend the producer or the reader, then redeliver",
                error.line(),
                error.column()
            )
        })
    }
}
