//! Paddle models: programs, tensor streams and parameter files of any size.
//!
//! A [`PaddleModel`] is opened by its folder, or by the name of any of its files. It lists its
//! [variables](PaddleModel::variables) and [parameters](PaddleModel::parameters) after reading only
//! headers. Its [source](PaddleModel::source) presents the program and all parameters as one
//! message of any size, without copying them. [`write_model`] writes such a message to files, in
//! the original layout or in another one.
//!
//! The module [`stream`] reads and writes single tensors. [`ParameterFile`] reads a file of
//! tensors.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod dtype;
mod format;
mod model;
mod names;
mod output;
mod parameters;
mod part;
mod program;
pub mod proto;
mod splitter;
pub mod stream;

pub use dtype::element_size;
pub use format::{LOD, PaddleFormat, TENSOR, type_of};
pub use model::{Appended, MODEL, PaddleModel, PaddleOpenOptions, ProgramKind, append_to_model};
pub use names::NAMES;
pub use output::{Arrangement, PaddleWriteOptions, WrittenModel, convert, write_model};
pub use parameters::{Parameter, ParameterFile, ParameterWriter, append};
pub use program::{PaddleVariable, ParameterSpec, Stored, parameters, variables};
pub use splitter::{ModelSplitter, PROGRAM_DESC, ProgramDescSplitter};
