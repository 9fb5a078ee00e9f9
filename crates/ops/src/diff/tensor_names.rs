//! Names of the tensors in which two messages differ.

use std::collections::HashMap;

use proto_splitter_core::Result;
use proto_splitter_core::formats::Opened;
use proto_splitter_core::path::FieldPath;
use proto_splitter_core::tensor::{Location, TensorInfo, tensors_in};

/// The names of the tensors in a message, by the tensors' paths.
pub(super) struct TensorNames(HashMap<FieldPath, String>);

impl TensorNames {
    /// Lists the named tensors of an input. If listing fails, the result is empty, so that
    /// differences are reported without names.
    pub(super) fn of(input: &Opened) -> TensorNames {
        let listed = list(input).unwrap_or_default().into_iter();
        let named = listed.filter_map(|tensor| match tensor.location {
            // An unnamed tensor is listed with its path as its name, and is skipped here.
            Location::Message { path, text } if text != tensor.name => Some((path, tensor.name)),
            _ => None,
        });
        TensorNames(named.collect())
    }

    /// Returns the name of the tensor at a path, or of the tensor that contains the value at the
    /// path.
    pub(super) fn around(&self, path: &FieldPath) -> Option<String> {
        let mut around = path.clone();
        loop {
            if let Some(name) = self.0.get(&around) {
                return Some(name.clone());
            }
            around.pop()?;
        }
    }
}

fn list(input: &Opened) -> Result<Vec<TensorInfo>> {
    if let Some(format) = input.format()
        && let Some(placed) = format.tensors_in_message(input.reader()?.into())?
    {
        return Ok(placed.into_iter().map(|one| one.info).collect());
    }
    tensors_in(&input.view()?, &input.registry().tensor_rules())
}
