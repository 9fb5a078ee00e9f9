//! Paddle models: programs, tensor streams and parameter files of any size.
//!
//! A [`PaddleModel`] is opened by any of its names. It lists [variables](PaddleModel::variables) and
//! [parameters](PaddleModel::parameters) from headers alone, and is one message of any size as a
//! [source](PaddleModel::source): its program and all parameters, without a copy of them.
//! [`write_model`] makes files of such a message, in the layout that they were in or in another.
//!
//! [`stream`] is about one tensor in a file, [`ParameterFile`] about a file of them.
#![forbid(unsafe_code)]
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
pub use format::{PaddleFormat, TENSOR};
pub use model::{MODEL, PaddleModel, PaddleOpenOptions, ProgramKind};
pub use names::NAMES;
pub use output::{Arrangement, PaddleWriteOptions, WrittenModel, convert, write_model};
pub use parameters::{Parameter, ParameterFile, ParameterWriter, append};
pub use program::{PaddleVariable, ParameterSpec, Stored, parameters, variables};
pub use splitter::{ModelSplitter, PROGRAM_DESC, ProgramDescSplitter};
