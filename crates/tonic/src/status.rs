//! Errors as statuses.

use proto_splitter_core::Error;
use proto_splitter_transfer::proto::ErrorDetail;
use proto_splitter_transfer::status;
use tonic::{Code, Status};

/// Converts an error to a status with its message and the code for its kind. The details have the
/// field path, the chunk and the offset.
///
/// ```
/// use proto_splitter_core::{Error, ErrorKind};
/// use proto_splitter_tonic::{detail, status};
///
/// let error = Error::new(ErrorKind::ChecksumMismatch, "other bytes").in_chunk(3);
/// let status = status(&error);
/// assert_eq!(status.code(), tonic::Code::DataLoss);
/// assert_eq!(detail(&status).and_then(|detail| detail.chunk), Some(3));
/// ```
pub fn status(error: &Error) -> Status {
    let code = Code::from(status::code(error.kind()));
    Status::with_details(code, status::message(error), status::details(error))
}

/// Returns the location of an error, if a peer that uses this crate reported it.
pub fn detail(status: &Status) -> Option<ErrorDetail> {
    status::parse_details(status.details())
}
