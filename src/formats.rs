//! The formats that ship. A format is a crate that implements [`Format`], and a line in [`ALL`].
//!
//! ```
//! use proto_splitter::formats::{self, OpenOptions};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("saved_model.pb"), b"\x08\x01")?;
//!
//! let opened = formats::ALL.open(folder.path(), &OpenOptions::new())?;
//! assert_eq!(opened.format().map(|format| format.title()), Some("SavedModel"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use proto_splitter_core::formats::{
    Archive, Candidate, CandidateKind, Checks, Confidence, ConvertOptions, ConvertTarget,
    Converted, Entry, Format, OpenOptions, Opened, Registry, Verified, what_else,
};

/// All formats that ship.
pub static ALL: Registry = Registry::new(&[
    &proto_splitter_graph_def::GraphDefFormat,
    &proto_splitter_paddle::PaddleFormat,
    &proto_splitter_samediff::SameDiffFormat,
    &proto_splitter_samediff::SafetensorsFormat,
    // Before the plain one, as which it would be read too.
    &proto_splitter_externalize::ExternalizedFormat,
    &proto_splitter_saved_model::SavedModelFormat,
    &proto_splitter_onnx::OnnxFormat,
    &proto_splitter_tensor_bundle::CheckpointFormat,
]);
