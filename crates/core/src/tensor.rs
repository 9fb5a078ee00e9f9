//! Tensors in a field of a message, in a file, or in an entry of an archive.
//!
//! A [`TensorInfo`] is the header of a tensor: its name, its element type ([`DType`]), its shape,
//! and the size and location of its bytes. A [`TensorReader`] reads the bytes from first to last,
//! without holding all of them in memory. A [`TensorRule`] describes, as data, how tensors are
//! stored in a message of some type.
//!
//! The elements are contiguous in C order (the last dimension varies fastest). Elements of less
//! than a byte are either packed, the first in the lowest bits, or take one byte each; the size of
//! the tensor shows which.
//!
//! ```
//! use proto_splitter_core::tensor::{DType, Location, TensorInfo, TensorReader};
//!
//! let info = TensorInfo::new("bias", DType::F32, vec![2])
//!     .located(Location::file("weights.bin", 128));
//! assert_eq!((info.elements(), info.bytes), (Some(2), 8));
//! assert_eq!(info.to_string(), "bias float32[2]");
//!
//! let reader = TensorReader::of_bytes(info, vec![0; 8]);
//! assert_eq!(reader.to_vec()?, [0; 8]);
//! # Ok::<(), proto_splitter_core::Error>(())
//! ```

mod decode;
mod dtype;
mod elements;
mod find;
mod info;
mod name_budget;
mod read_many;
mod reader;
mod rule;
pub mod safetensors;
mod strings;

pub use decode::tensor_at;
pub(crate) use decode::tensor_in_pieces;
pub use dtype::DType;
pub use elements::{ElementForm, write_elements};
pub use find::{MAX_LIST_MEMORY, PlacedTensor, tensors_in};
pub(crate) use find::{leading, placed_tensors_in};
pub use info::{ByteOrder, Location, TensorInfo, element_count};
pub use name_budget::NameBudget;
pub use read_many::{read_many, read_many_into};
pub use reader::{TensorReader, read_bytes};
pub use rule::{ElementRule, LodRule, ShapeRule, TensorRule};
pub use strings::{string_elements_at, strings_at};
