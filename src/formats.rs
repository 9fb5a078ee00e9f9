//! The formats that this crate includes. Each is a type that implements [`Format`], listed in
//! [`ALL`].
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
    Archive, Candidate, CandidateKind, Checks, Confidence, ConvertOptions, ConvertSetting,
    ConvertTarget, Converted, Entry, Format, OpenOptions, Opened, Registry, Verified, what_else,
};

/// Registry of all formats in this crate whose crate features are enabled.
pub static ALL: Registry = Registry::new(&[
    #[cfg(feature = "tensorflow")]
    &proto_splitter_graph_def::GraphDefFormat,
    #[cfg(feature = "paddle")]
    &proto_splitter_paddle::PaddleFormat,
    #[cfg(feature = "samediff")]
    &proto_splitter_samediff::SameDiffFormat,
    #[cfg(feature = "samediff")]
    &proto_splitter_samediff::SafetensorsFormat,
    // Must precede the SavedModel format, which would also accept an externalized model.
    #[cfg(feature = "externalize")]
    &proto_splitter_externalize::ExternalizedFormat,
    #[cfg(feature = "tensorflow")]
    &proto_splitter_saved_model::SavedModelFormat,
    #[cfg(feature = "onnx")]
    &proto_splitter_onnx::OnnxFormat,
    #[cfg(feature = "tensorflow")]
    &proto_splitter_tensor_bundle::CheckpointFormat,
    #[cfg(feature = "xla")]
    &proto_splitter_xla::XlaFormat,
    #[cfg(feature = "xla")]
    &proto_splitter_xla::ProfileFormat,
    #[cfg(feature = "perfetto")]
    &proto_splitter_perfetto::PerfettoFormat,
    // Must be last, since for some record files, another format provides more than the type of the
    // records.
    #[cfg(feature = "sequences")]
    &proto_splitter_sequences::SequenceFormat,
]);
