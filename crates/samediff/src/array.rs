//! Arrays: their shape, the location of their bytes, and the format of an array's file.

mod flat;
mod info;
mod strings;
mod swapped;
mod transposed;

pub use flat::{Array, ArrayElements};
pub use info::{ArrayByteOrder, ArrayInfo, Order};
pub use strings::MAX_STRINGS_SIZE;

pub(crate) use flat::{from_table, header};
