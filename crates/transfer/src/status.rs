//! Conversion of errors to gRPC's form: a status code, a message, and details with the error's
//! location.

use bytes::Bytes;
use prost::Message;
use prost_reflect::prost_types::Any;
use proto_splitter_core::{Error, ErrorKind};

use crate::proto::ErrorDetail;

/// Type URL of an [`ErrorDetail`] in a `google.rpc.Status`.
const DETAIL_TYPE: &str = "type.googleapis.com/proto_splitter.transfer.ErrorDetail";

/// `google.rpc.Status`, which gRPC transmits as `grpc-status-details-bin`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// Returns the number of the gRPC status code for a kind of error. An I/O error, such as a transfer
/// that broke off, has the code 14 (`UNAVAILABLE`), since the transfer can be resumed.
///
/// ```
/// use proto_splitter_core::ErrorKind;
/// use proto_splitter_transfer::status::code;
///
/// assert_eq!(code(ErrorKind::Io), 14);
/// assert_eq!(code(ErrorKind::ChecksumMismatch), 15);
/// ```
#[must_use]
pub const fn code(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::Cancelled => 1,
        ErrorKind::InvalidMessage
        | ErrorKind::InvalidPath
        | ErrorKind::InvalidSchema
        | ErrorKind::InvalidTrailer
        | ErrorKind::NotChunked
        | ErrorKind::SchemaNeeded
        | ErrorKind::Uncuttable => 3,
        ErrorKind::NoFolder => 5,
        ErrorKind::AlreadyExists => 6,
        ErrorKind::LimitExceeded => 8,
        ErrorKind::InvalidConfig => 9,
        ErrorKind::SourceChanged => 10,
        ErrorKind::UnsupportedVersion => 12,
        ErrorKind::Io => 14,
        ErrorKind::ChecksumMismatch | ErrorKind::Record => 15,
        _ => 13,
    }
}

/// Maximum size of a message or path in a status, in bytes: 1 KiB. A status is sent in headers,
/// whose size is limited by peers.
const LONGEST: usize = 1024;

/// Returns the message of an error in one line, truncated to fit into a status.
pub fn message(error: &Error) -> String {
    shortened(error.to_string())
}

fn shortened(mut text: String) -> String {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push_str(" ...");
    }
    text
}

/// Returns the value of the gRPC metadata key `grpc-status-details-bin` for an error: a serialized
/// `google.rpc.Status` that contains an [`ErrorDetail`].
pub fn details(error: &Error) -> Bytes {
    let detail = ErrorDetail {
        kind: format!("{:?}", error.kind()),
        path: shortened(error.path().unwrap_or_default().to_owned()),
        chunk: error.chunk().map(|chunk| chunk.get()),
        offset: error.offset(),
    };
    let any = Any {
        type_url: DETAIL_TYPE.to_owned(),
        value: detail.encode_to_vec(),
    };
    let status = RpcStatus {
        code: code(error.kind()),
        message: message(error),
        details: vec![any],
    };
    status.encode_to_vec().into()
}

/// Returns the [`ErrorDetail`] from bytes that [`details`] returned; `None` if there is none.
pub fn parse_details(bytes: &[u8]) -> Option<ErrorDetail> {
    let status = RpcStatus::decode(bytes).ok()?;
    let any = (status.details.iter()).find(|any| any.type_url == DETAIL_TYPE)?;
    ErrorDetail::decode(&any.value[..]).ok()
}
