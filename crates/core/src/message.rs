//! Messages at rest: in the chunks of a file, or in one piece.

#[doc(hidden)]
pub mod canonical;
mod chunked_file;
mod merged_message;
mod message_reader;

pub use chunked_file::ChunkedFile;
pub use merged_message::MergedMessage;
pub use message_reader::MessageReader;
