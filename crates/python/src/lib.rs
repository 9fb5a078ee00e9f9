//! The native part of the Python package `proto_splitter`.
//!
//! The public Python API, with its names, defaults, docstrings and types, is in
//! `python/proto_splitter`. This crate converts arguments, runs the library without the GIL, and
//! converts errors to exceptions.

mod buffer;
mod error;
mod functions;
mod handle;
mod input;
mod merged;
mod parts;
mod pieces;
mod reports;
mod schema;
mod sink;
mod table;
mod target;
mod transfer;
mod work;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::functions::{
        command, merge, merge_to, merge_to_bytes, split, split_in_memory, split_to,
    };
    #[pymodule_export]
    use crate::handle::Handle;
    #[pymodule_export]
    use crate::merged::MergedReader;
    #[pymodule_export]
    use crate::parts::{commit, plan_merge, plan_split, plan_verify, run_part};
    #[pymodule_export]
    use crate::pieces::Pieces;
    #[pymodule_export]
    use crate::reports::{
        Tree, append, convert, diff, externalize, fingerprint, info, internalize, verify,
    };
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::transfer::{
        Sender, TransferReceiver, transfer_check_target, transfer_descriptors, transfer_detail,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
