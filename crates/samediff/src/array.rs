//! Arrays: their shape, where their bytes are, and the file that holds one.

mod flat;
mod shape;
mod strings;
mod swapped;
mod transposed;

pub use flat::{Array, Elements};
pub use shape::{ArrayInfo, ByteOrder, Order};
pub use strings::MAX_STRINGS_SIZE;

pub(crate) use flat::{from_table, header};
