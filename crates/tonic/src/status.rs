//! Conversion of errors to gRPC statuses.

use proto_splitter_core::Error;
use proto_splitter_transfer::proto::ErrorDetail;
use proto_splitter_transfer::status;
use tonic::{Code, Status};

/// Converts an error to a status with the error's message, and the gRPC code for its kind. The
/// status details have the field path, the chunk and the offset of the error.
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

/// Parses the details of a status, which contain the location of an error. Returns `None` if the
/// status has no such details, for example because its sender doesn't use this crate.
pub fn detail(status: &Status) -> Option<ErrorDetail> {
    status::parse_details(status.details())
}
