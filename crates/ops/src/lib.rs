//! Operations on protobuf messages and models of any size, in addition to splitting and merging:
//! verifying, describing, comparing, exporting, editing and converting. The `protosplit` command
//! calls these functions.
//!
//! Most functions take an [open](proto_splitter_core::formats::Opened) input, and options that
//! include progress reporting and cancellation. They return a report, which is a struct with public
//! fields. With the feature `serde`, a report is serialized with the keys of the command's `--json`
//! output. No function prints anything.
//!
//! ```
//! use proto_splitter_core::formats::{OpenOptions, Opened};
//! use proto_splitter_ops::{VerifyOptions, verify};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("message.pb");
//! std::fs::write(&path, b"\x08\x01")?;
//! let report = verify(&Opened::of_file(&path, None, &OpenOptions::new())?, &VerifyOptions::new())?;
//! assert!(report.ok);
//!
//! std::fs::write(&path, b"\x08")?;
//! let report = verify(&Opened::of_file(&path, None, &OpenOptions::new())?, &VerifyOptions::new())?;
//! assert_eq!(report.problems.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[cfg(feature = "paddle")]
mod append;
#[cfg(feature = "serde")]
mod as_text;
mod convert;
mod diff;
mod edit;
mod error_place;
#[cfg(feature = "export")]
mod export;
#[cfg(feature = "externalize")]
mod externalize;
#[cfg(feature = "tensorflow")]
mod fingerprint;
mod info;
mod layout;
#[cfg(feature = "export")]
mod npy;
mod npy_header;
mod pieces;
mod pipe;
mod rewrite;
mod salvage;
mod size;
mod tally;
mod target_form;
mod tensors;
mod tree;
mod verify;

#[cfg(feature = "paddle")]
pub use append::{AppendOptions, AppendReport, append};
pub use convert::{
    CHUNKS, ConversionOptions, ConvertReport, FormInfo, FormSetting, FormsReport, convert, form,
    forms, targets,
};
#[cfg(feature = "tensorflow")]
pub use convert::{ConvertSavedModelReport, convert_saved_model};
pub use diff::{
    DiffDetails, DiffOptions, DiffReport, MessageDifference, Outcome, TensorDifference, diff,
};
pub use edit::{EditOptions, EditReport, Strip, edit, is_edited_in_chunks, strip};
#[cfg(feature = "export")]
pub use export::{ExportFormat, ExportOptions, ExportReport, export};
#[cfg(feature = "externalize")]
pub use externalize::{
    Constant, ExternalizeReport, ExternalizeTo, InternalizeReport, LeftIn, externalize, internalize,
};
#[cfg(feature = "tensorflow")]
pub use fingerprint::{Fingerprint, FingerprintReport, fingerprint};
pub use info::{
    ChunkInfo, FormatInfo, Info, LargeTensor, ListOptions, ListedChunk, ListedEntry, Listing,
    MessageInfo, OtherFile, entries, info, list,
};
pub use layout::{
    FileLayout, Layout, LayoutOptions, Region, RegionKind, RegionPart, RegionTotal, layout,
};
#[cfg(feature = "export")]
pub use npy::write_npy;
pub use npy_header::read_npy_header;
pub use pieces::{PiecesOptions, PiecesReport, WrittenPiece, pieces};
pub use rewrite::{ReplaceOptions, RewriteReport, RewrittenFile, recompress, replace};
pub use salvage::{LostPart, Salvage, SalvageOptions, SalvageReport, salvage};
pub use size::parse_size;
pub use tally::{Tally, TallyGroup, TallyOptions, Total, tally};
pub use tensors::{TensorEntry, TensorsReport, tensors};
pub use tree::{
    LeastSize, MeasuredTree, SizeChange, TreeDiffReport, TreeField, TreeLimits, TreeMember,
    TreeOptions, TreeOrder, TreePart, TreeReport, TreeRest, WhatChanged, tree, tree_diff,
};
pub use verify::{
    Against, Agreement, Checked, CheckedVariables, Parsed, VerifyOptions, VerifyReport, verify,
};
