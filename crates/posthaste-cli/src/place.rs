//! Where the outbox is: from what was typed to an open store.

use std::sync::Arc;

use posthaste::store::postgres::Postgres;
use posthaste::{Store, StoreError, Table};

use crate::cli::Place;
use crate::failure::Failure;

/// The one outbox that a command is about.
pub(crate) async fn open(place: &Place) -> Result<Arc<dyn Store>, Failure> {
    let (address, table) = chosen(place)?;
    Ok(connect(&address, table).await?)
}

/// Every outbox that a command is about.
pub(crate) async fn open_all(place: &Place) -> Result<Vec<Arc<dyn Store>>, Failure> {
    Ok(vec![open(place).await?])
}

/// The address of the database, and the outbox in it.
fn chosen(place: &Place) -> Result<(String, Table), Failure> {
    let Some(address) = &place.database else {
        return Err(Failure::usage(
            "no database is given: add --database URL, such as postgres://localhost/shop",
        ));
    };
    let Some(table) = &place.table else {
        return Err(Failure::usage(
            "no outbox is given: add --table NAME, such as public.orders_outbox",
        ));
    };
    let table = Table::parse(table).map_err(|error| Failure::usage(error.to_string()))?;
    Ok((address.clone(), table))
}

/// A store on the outbox of this name in the database at this address.
async fn connect(address: &str, table: Table) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(Postgres::connect(address, table).await?))
}
