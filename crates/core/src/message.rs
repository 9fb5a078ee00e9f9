//! Stored messages, in the chunks of a file or in one piece.

#[doc(hidden)]
pub mod canonical;
mod chunked_file;
mod find;
mod in_chunks;
mod merged_message;
mod merger;
mod message_reader;
mod piece;
mod stored;

pub use chunked_file::ChunkedFile;
pub use merged_message::MergedMessage;
pub use merger::Merger;
pub use message_reader::MessageReader;
pub(crate) use piece::Piece;
pub(crate) use stored::StoredMessage;
