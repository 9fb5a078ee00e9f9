//! Arrays: their shapes, the locations of their data, and the format of the files that contain
//! them.

mod flat;
mod info;
mod strings;
mod swapped;
mod transposed;

pub use flat::{Array, ArrayElements};
pub use info::{ArrayByteOrder, ArrayInfo, Order};
pub use strings::MAX_STRINGS_SIZE;

pub(crate) use flat::{from_table, header};
