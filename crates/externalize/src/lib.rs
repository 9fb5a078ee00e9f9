//! Moving the large constants of a SavedModel into a tensor bundle, so that unmodified TensorFlow
//! loads a model of any size.
//!
//! TensorFlow can't read a `saved_model.pb` over 2 GiB. Loading a smaller model with large constants
//! takes six times their size in memory, and its first run takes sixteen times their size. This crate moves the constants into a checkpoint under `assets/`. The model's own
//! initializer reads them into variables:
//!
//! ```text
//! saved_model.pb                                            KiB: constants are read from variables
//! assets/proto_splitter_constants.index                     the location of each constant
//! assets/proto_splitter_constants.data-00000-of-00001       the constants' bytes, each once
//! assets.extra/proto_splitter_original.pb                   the original, to restore it
//! ```
//!
//! The results of the model are the same. One difference is possible: where the original adds or
//! multiplies two constants one after the other, TensorFlow's graph optimizer may combine them, which
//! can change the last bit of a result. Unmodified TensorFlow loads the model with
//! `tf.saved_model.load`, in a TensorFlow 1 session, and with the C++ loader. The conversion itself
//! doesn't need TensorFlow.
//!
//! ```no_run
//! use proto_splitter_externalize::{ExternalizeOptions, ExternalizePlan, internalize};
//!
//! let options = ExternalizeOptions::new();
//! let plan = ExternalizePlan::new("model", &options)?;
//! println!("{} constants of {} bytes", plan.constants().len(), plan.stored());
//! plan.write("model_for_tensorflow")?;
//!
//! internalize("model_for_tensorflow", "model_again", &options)?;
//! # Ok::<(), proto_splitter_core::Error>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod again;
mod call_graph;
mod call_sites;
mod constant;
mod content;
mod finish;
mod format;
mod internalize;
mod kept;
mod memory;
mod options;
mod plan;
mod record;
mod rewrite;
mod scan;
mod select;

pub use finish::finish_in_place;
pub use format::ExternalizedFormat;
pub use internalize::{Internalized, check_model, internalize, original};
pub use memory::MAX_MEMORY;
pub use options::{DEFAULT_MIN_SIZE, ExternalizeOptions, LEAST_MIN_SIZE};
pub use plan::{ConstantInfo, ExternalizePlan, Externalized};
pub use record::RECORD_FILE;
pub use rewrite::BUNDLE_NAME;
pub use scan::{MAX_NODES, MAX_REST};
pub use select::Reason;
