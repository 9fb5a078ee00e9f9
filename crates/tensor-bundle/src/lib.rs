//! Reading and writing TensorFlow checkpoints in format V2, with tensors of any size.
//!
//! A checkpoint is stored as a tensor bundle, which is a set of files with a common prefix, for
//! example `variables/variables`:
//!
//! ```text
//! PREFIX.index                  a sorted table: name -> type, shape, shard, offset, size, checksum
//! PREFIX.data-00000-of-00002    the bytes of tensors, one after another
//! PREFIX.data-00001-of-00002
//! ```
//!
//! [`Bundle`] opens a bundle and reads tensors on demand. [`BundlePlan`] plans and writes a bundle.
//! Both process tensors in pieces, so that only a few MiB are in memory.
//!
//! ```
//! use proto_splitter_graph_def::proto::DataType;
//! use proto_splitter_tensor_bundle::{Bundle, BundleOptions, BundlePlan, NewTensor};
//!
//! let folder = tempfile::tempdir()?;
//! let prefix = folder.path().join("weights");
//! let bytes: Vec<u8> = [1.0f32, 2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
//!
//! let tensor = NewTensor::new("layer/kernel", DataType::DtFloat, [3], &bytes);
//! BundlePlan::new(vec![tensor], 1)?.write(&prefix, &BundleOptions::new())?;
//!
//! let bundle = Bundle::open(&prefix)?;
//! let tensor = bundle.find("layer/kernel").ok_or("it was written")?;
//! assert_eq!((tensor.dtype(), tensor.shape()), (DataType::DtFloat, &[3u64][..]));
//! assert_eq!(bundle.read(tensor)?, bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sizes and offsets are in bytes.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod bundle;
mod checksum;
mod data;
mod dtype;
mod files;
mod format;
mod index;
mod options;
mod plan;
pub mod proto;
mod slice;
mod strings;
mod table;
mod verify;
#[doc(hidden)]
pub mod work;

pub use bundle::{Bundle, BundleReader};
pub use checksum::{mask_crc, unmask_crc};
pub use dtype::{dtype_name, element_size};
pub use files::{data_path, index_path, prefix_of};
pub use format::CheckpointFormat;
pub use index::{Slice, Span, Tensor, TensorLocation};
pub use options::{BundleOptions, MAX_SHARDS};
pub use plan::{BundlePlan, NewTensor, WrittenBundle};
pub use table::MAX_BLOCK_SIZE;
pub use verify::VerifiedBundle;
