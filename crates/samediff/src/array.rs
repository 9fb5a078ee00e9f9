//! Arrays: their shape, where their bytes are, and the file that holds one.

mod flat;
mod shape;
mod strings;
mod swapped;
mod transposed;

pub use flat::{Array, ArrayElements};
pub use shape::{ArrayByteOrder, ArrayInfo, Order};
pub use strings::MAX_STRINGS_SIZE;

pub(crate) use flat::{from_table, header};
