//! What SQLite's errors mean to whoever runs a relay.

use std::path::Path;

use rusqlite::{Error, ErrorCode};

use crate::schema::sqlite::{Failure, is_locked};
use crate::store::StoreError;

/// Sorts an error by what mends it.
pub(super) fn classify(error: Error) -> StoreError {
    if is_locked(&error) {
        return StoreError::Unavailable(
            "another process has kept the file locked: find out which one holds a transaction open"
                .into(),
        );
    }
    let source = Box::new(Told(error.to_string()));
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => StoreError::Unavailable(Box::new(Interrupted)),
        Some(ErrorCode::DiskFull) => StoreError::Full(source),
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(source),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => StoreError::Denied(source),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(source),
        // What is wrong with what was said, not with the file.
        Some(
            ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::TooBig
            | ErrorCode::Unknown,
        )
        | None => StoreError::Refused(source),
        Some(_) => StoreError::Unavailable(source),
    }
}

/// Tells a question that was given up from a file that cannot be read.
pub(super) fn slow(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(said) if said.is::<Interrupted>() => StoreError::Slow(said),
        error => error,
    }
}

/// A refusal as one of what was to be settled, if it can be that. A table or a column that is not there may be there
/// again: what was delivered must not be delivered once more for it.
pub(super) fn of_settlements(error: StoreError) -> StoreError {
    match error {
        StoreError::Refused(said) if said.to_string().starts_with("no such ") => {
            StoreError::Unavailable(said)
        }
        error => error,
    }
}

/// The same for what schema checks may meet.
pub(super) fn of_schema(failure: Failure) -> StoreError {
    match failure {
        Failure::Schema(error) => StoreError::Schema(error),
        Failure::Sqlite(error) => classify(error),
    }
}

/// The same for what the file system says about a file beside the database.
pub(super) fn of_file(path: &Path, error: &std::io::Error) -> StoreError {
    use std::io::ErrorKind;
    let source = Box::new(Told(format!("{}: {error}", path.display())));
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full(source),
        ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly(source),
        ErrorKind::PermissionDenied | ErrorKind::IsADirectory | ErrorKind::NotADirectory => {
            StoreError::Denied(source)
        }
        _ => StoreError::Unavailable(source),
    }
}

/// What was said, as text: an error of rusqlite may carry the statement along.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Told(String);

#[derive(Debug, thiserror::Error)]
#[error("it was given up")]
struct Interrupted;
