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
    let source = Box::new(Told {
        text: error.to_string(),
        code: error.sqlite_error_code(),
    });
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

/// A refusal as one of what was to be settled, unless a table or a column is not there. It may be there again: what was
/// delivered must not be delivered once more for it. A trigger of somebody's may say the same of one event, under another
/// code.
pub(super) fn of_settlements(error: StoreError) -> StoreError {
    let is_away =
        |told: &Told| told.code == Some(ErrorCode::Unknown) && told.text.starts_with("no such ");
    match error {
        StoreError::Refused(said) if said.downcast_ref().is_some_and(is_away) => {
            StoreError::Unavailable(said)
        }
        error => error,
    }
}

/// Sorts what schema checks may meet.
pub(super) fn of_schema(failure: Failure) -> StoreError {
    match failure {
        Failure::Schema(error) => StoreError::Schema(error),
        Failure::Sqlite(error) => classify(error),
    }
}

/// Sorts what the file system says about a file beside the database.
pub(super) fn of_file(path: &Path, error: &std::io::Error) -> StoreError {
    use std::io::ErrorKind;
    let source = Box::new(Told {
        text: format!("{}: {error}", path.display()),
        code: None,
    });
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
#[error("{text}")]
struct Told {
    text: String,
    code: Option<ErrorCode>,
}

#[derive(Debug, thiserror::Error)]
#[error("it was given up")]
struct Interrupted;
