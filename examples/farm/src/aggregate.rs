//! Aggregates: fields and barns. They change, and record what happened; they know of no broker.

use posthaste::{EnqueueError, Recorded};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::event::{CropHarvested, CropSown, CropStored, DomainEvent};
use crate::farm::FarmError;

/// A statement with its values.
pub type Statement<'a> = (&'static str, Vec<&'a (dyn ToSql + Sync)>);

/// What can be saved together with what it has recorded.
pub trait Aggregate: Send + Sync {
    /// The domain events that it has raised, and that are not saved yet.
    fn recorded(&mut self) -> &mut Recorded;

    /// Which version of it was loaded. Zero: it is new.
    fn version(&mut self) -> &mut i64;

    /// The statement that saves it as it is now, and changes no row if others have saved it since.
    fn upsert(&self) -> Statement<'_>;
}

/// A field.
#[derive(Debug)]
pub struct Field {
    /// Its id.
    pub id: Uuid,
    /// What the farmer calls it.
    pub name: String,
    /// What grows there.
    pub crop: Option<String>,
    /// Which version of it this is.
    pub version: i64,
    /// What happened and is not saved yet.
    pub events: Recorded,
}

impl Field {
    /// A field on which nothing grows.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            id: Uuid::now_v7(),
            name: name.into(),
            crop: None,
            version: 0,
            events: Recorded::new(),
        }
    }

    /// Sows a crop.
    pub fn sow(&mut self, crop: &str) -> Result<(), EnqueueError> {
        let event = CropSown {
            field: self.id,
            crop: crop.to_owned(),
        };
        self.crop = Some(event.crop.clone());
        self.events.record(event.message("Field", self.id)?);
        Ok(())
    }

    /// Harvests what grows there, and tells what it was.
    pub fn harvest(&mut self, kilograms: i64) -> Result<String, FarmError> {
        let crop = self.crop.take().ok_or(FarmError::NothingGrows)?;
        let event = CropHarvested {
            field: self.id,
            crop: crop.clone(),
            kilograms,
        };
        self.events.record(event.message("Field", self.id)?);
        Ok(crop)
    }
}

impl Aggregate for Field {
    fn recorded(&mut self) -> &mut Recorded {
        &mut self.events
    }

    fn version(&mut self) -> &mut i64 {
        &mut self.version
    }

    fn upsert(&self) -> Statement<'_> {
        let sql = "insert into fields (id, name, crop, version) values ($1, $2, $3, $4::bigint + 1)
                   on conflict (id) do update
                   set name = excluded.name, crop = excluded.crop, version = excluded.version
                   where fields.version = excluded.version - 1";
        (sql, vec![&self.id, &self.name, &self.crop, &self.version])
    }
}

/// A barn. That it is not overfull is for the database to say.
#[derive(Debug)]
pub struct Barn {
    /// Its id.
    pub id: Uuid,
    /// How many kilograms there is room for.
    pub capacity: i64,
    /// How many are there.
    pub stored: i64,
    /// Which version of it this is.
    pub version: i64,
    /// What happened and is not saved yet.
    pub events: Recorded,
}

impl Barn {
    /// An empty barn.
    pub fn new(capacity: i64) -> Self {
        Self {
            id: Uuid::now_v7(),
            capacity,
            stored: 0,
            version: 0,
            events: Recorded::new(),
        }
    }

    /// Puts a harvest there.
    pub fn store(&mut self, crop: &str, kilograms: i64) -> Result<(), EnqueueError> {
        self.stored += kilograms;
        let event = CropStored {
            barn: self.id,
            crop: crop.to_owned(),
            kilograms,
        };
        self.events.record(event.message("Barn", self.id)?);
        Ok(())
    }
}

impl Aggregate for Barn {
    fn recorded(&mut self) -> &mut Recorded {
        &mut self.events
    }

    fn version(&mut self) -> &mut i64 {
        &mut self.version
    }

    fn upsert(&self) -> Statement<'_> {
        let sql = "insert into barns (id, capacity, stored, version) values ($1, $2, $3, $4::bigint + 1)
                   on conflict (id) do update
                   set capacity = excluded.capacity, stored = excluded.stored, version = excluded.version
                   where barns.version = excluded.version - 1";
        (
            sql,
            vec![&self.id, &self.capacity, &self.stored, &self.version],
        )
    }
}
