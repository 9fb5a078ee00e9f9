//! Arrays: their shape, where their bytes are, and the file that holds one.

mod flat;
mod order;
mod shape;
mod strings;

pub use flat::{Array, Elements};
pub use shape::{ArrayInfo, ByteOrder, Order};
pub use strings::MAX_STRINGS_SIZE;

pub(crate) use flat::{from_table, header};
