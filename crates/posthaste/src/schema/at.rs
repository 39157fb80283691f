//! Making, checking and printing the structure of an outbox, wherever its address says that it is.

#[cfg(feature = "sqlite")]
use super::SchemaError;
#[cfg(feature = "postgres")]
use crate::store::postgres::of_schema;
#[cfg(feature = "sqlite")]
use crate::store::sqlite;
use crate::store::{Kind, StoreError};
use crate::table::Table;

/// Makes the outbox at an address, or brings it up to date; a SQLite file is created if there is
/// none. Gives back the version that it is at. For addresses see [`connect`](crate::store::connect).
pub async fn apply_at(address: &str, table: &Table) -> Result<i32, StoreError> {
    match Kind::of(address)? {
        #[cfg(feature = "postgres")]
        Kind::Postgres => {
            let mut client = crate::store::postgres::connect::client(address).await?;
            super::apply(&mut client, table).await.map_err(of_schema)
        }
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => sqlite::apply(address, table).await,
    }
}

/// Checks that the outbox at an address is what this version works with. Gives back the version
/// that it is at.
pub async fn check_at(address: &str, table: &Table) -> Result<i32, StoreError> {
    match Kind::of(address)? {
        #[cfg(feature = "postgres")]
        Kind::Postgres => {
            let client = crate::store::postgres::connect::client(address).await?;
            let checked = super::check(&client, table).await;
            checked.map_err(of_schema)?;
            Ok(super::OUTBOX.version())
        }
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => {
            sqlite::check(address, table).await?;
            Ok(super::sqlite::OUTBOX.version())
        }
    }
}

/// Switches on, or off, that enqueueing wakes listening relays. SQLite wakes them in any case.
pub async fn notify_at(address: &str, table: &Table, on: bool) -> Result<(), StoreError> {
    match Kind::of(address)? {
        #[cfg(feature = "postgres")]
        Kind::Postgres => {
            let mut client = crate::store::postgres::connect::client(address).await?;
            let switched = super::notify(&mut client, table, on).await;
            switched.map_err(of_schema)
        }
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => {
            let _ = (table, on);
            Ok(())
        }
    }
}

/// The whole structure of an outbox as SQL for the database of this address.
pub fn sql_at(address: &str, table: &Table) -> Result<String, StoreError> {
    match Kind::of(address)? {
        #[cfg(feature = "postgres")]
        Kind::Postgres => Ok(super::sql(table)),
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => Ok(super::sqlite::sql(table).map_err(SchemaError::from)?),
    }
}
