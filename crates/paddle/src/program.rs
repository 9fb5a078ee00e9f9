//! Programs, and the variables and parameters that they declare.
//!
//! A `ProgramDesc` is parsed field by field. Only its variables are held in memory.

mod pir;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use prost::Message;
use proto_splitter_core::spans::first_bytes;
use proto_splitter_core::wire::{SourceInput, WireCursor};
use proto_splitter_core::{Error, ErrorKind, Result};
use record_file::ReadAt;

pub(crate) use pir::{looks_like_json, parameters as pir_parameters};

use crate::dtype::{data_size, element_size};
use crate::proto::framework::var_type::{TensorDesc, Type};
use crate::proto::framework::{VarDesc, VarType};
use crate::stream::{Stream, StreamKind, TensorSpec, len};

/// Maximum size of a serialized `VarDesc`: 1 MiB.
const MAX_VAR_SIZE: u64 = 1 << 20;

/// Number of the `ProgramDesc` field that contains a block.
const BLOCKS: u32 = 1;

/// Number of the `BlockDesc` field that contains a variable.
const VARS: u32 = 3;

/// A variable that a program declares.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PaddleVariable {
    /// Name of the variable.
    pub name: String,
    /// Index of the block that declares the variable.
    pub block: usize,
    /// Number of the variable's kind in `VarType.Type`. Newer versions of Paddle may have kinds
    /// that [`kind`](Self::kind) doesn't support.
    pub kind_number: i32,
    /// Number of the element type in the enum `VarType.Type`; `None` if the type isn't declared.
    pub dtype_number: Option<i32>,
    /// Size of each dimension, or -1 if it is unknown; `None` if the dims aren't declared.
    pub dims: Option<Vec<i64>>,
    /// Declared number of LoD levels.
    pub lod_level: i32,
    /// True if the variable's value persists between runs of the program, like that of a parameter.
    pub persistable: bool,
    /// Byte range of the variable's `VarDesc` in the serialized program.
    pub place: Range<u64>,
    /// Location of the variable's value; `None` unless the variable is a parameter of an open
    /// model.
    pub stored: Option<Stored>,
}

/// The location of a parameter's value in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// Path of the file that contains the value.
    pub file: Arc<Path>,
    /// Byte range of the elements in the file. For a vocabulary, this is the range of the whole
    /// stream.
    pub data: Range<u64>,
}

impl Stored {
    pub(crate) fn new(file: &Arc<Path>, data: Range<u64>) -> Stored {
        Stored {
            file: Arc::clone(file),
            data,
        }
    }
}

impl PaddleVariable {
    /// Returns the variable's kind; `None` if the number of the kind is unknown.
    #[must_use]
    pub fn kind(&self) -> Option<Type> {
        Type::try_from(self.kind_number).ok()
    }

    /// Returns the type of the variable's elements; `None` if the type isn't declared, or the
    /// number of the type is unknown.
    #[must_use]
    pub fn dtype(&self) -> Option<Type> {
        Type::try_from(self.dtype_number?).ok()
    }

    /// Returns the size of the variable's value, in bytes. If the value is stored in a file, this
    /// is its stored size, and otherwise the size that the dims and the type imply. Returns `None`
    /// if a dim is unknown, or the variable isn't a tensor.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        if let Some(stored) = &self.stored {
            return Some(len(&stored.data));
        }
        let dims = self.dims.as_ref()?.iter();
        let dims: Vec<u64> = dims
            .map(|dim| u64::try_from(*dim).ok())
            .collect::<Option<_>>()?;
        data_size(&dims, element_size(self.dtype()?)?)
    }

    /// Returns true if Paddle saves the variable's value: the variable is persistable, and its kind
    /// isn't `FeedMinibatch`, `FetchList`, `Reader` or `Raw`.
    #[must_use]
    pub fn is_parameter(&self) -> bool {
        use Type::{FeedMinibatch, FetchList, Raw, Reader};
        let other = [FeedMinibatch, FetchList, Reader, Raw].map(|kind| kind as i32);
        self.persistable && !other.contains(&self.kind_number)
    }

    fn new(block: usize, var: VarDesc, place: Range<u64>) -> PaddleVariable {
        let (tensor, lod_level) = tensor_of(&var.r#type);
        PaddleVariable {
            block,
            kind_number: var.r#type.r#type,
            dtype_number: tensor.map(|tensor| tensor.data_type),
            dims: tensor.map(|tensor| tensor.dims.clone()),
            lod_level,
            persistable: var.persistable.unwrap_or_default(),
            place,
            stored: None,
            name: var.name,
        }
    }
}

/// Returns the description of the tensor in a variable of this type, if there is one, and the
/// number of LoD levels.
fn tensor_of(of: &VarType) -> (Option<&TensorDesc>, i32) {
    if let Some(dense) = &of.lod_tensor {
        return (Some(&dense.tensor), dense.lod_level.unwrap_or_default());
    }
    if let Some(array) = &of.tensor_array {
        return (Some(&array.tensor), array.lod_level.unwrap_or_default());
    }
    let others = [
        &of.selected_rows,
        &of.string,
        &of.strings,
        &of.vocab,
        &of.sparse_coo,
        &of.sparse_csr,
    ];
    (others.into_iter().flatten().next(), 0)
}

/// Lists the variables of a serialized `ProgramDesc`, block by block.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`], with the offset, if the bytes aren't a `ProgramDesc`, or if two
/// variables of a block have the same name; [`ErrorKind::LimitExceeded`] if a variable is larger
/// than 1 MiB; [`ErrorKind::Io`].
pub fn variables(program: &dyn ReadAt) -> Result<Vec<PaddleVariable>> {
    let size = program.size()?;
    refuse_others(program)?;
    let mut cursor = WireCursor::new(SourceInput::new(program, size));
    let (mut variables, mut block) = (Vec::new(), 0);
    while let Some(field) = cursor.next()? {
        if field.is_len(BLOCKS) {
            variables_of(&mut cursor, block, field.value, &mut variables)?;
            cursor.set_range(field.end..size);
            block += 1;
        }
    }
    Ok(variables)
}

/// Adds the variables of a block to `variables`. `range` is the block's range in the program.
fn variables_of<S: ReadAt + ?Sized>(
    cursor: &mut WireCursor<SourceInput<'_, S>>,
    block: usize,
    range: Range<u64>,
    variables: &mut Vec<PaddleVariable>,
) -> Result<()> {
    let mut names = BTreeSet::new();
    cursor.set_range(range);
    while let Some(field) = cursor.next()? {
        if !field.is_len(VARS) {
            continue;
        }
        let at = field.value.start;
        let variable = variable(cursor, block, field.value)
            .map_err(|error| error.at_path(format!("blocks[{block}]")).at_offset(at))?;
        if !names.insert(variable.name.clone()) {
            let message = format!("block {block} has two variables {:?}", variable.name);
            return Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(at));
        }
        variables.push(variable);
    }
    Ok(())
}

/// Fails if a file is clearly JSON or a pickle, rather than a `ProgramDesc`.
fn refuse_others(program: &dyn ReadAt) -> Result<()> {
    let front = first_bytes(program, 2)?;
    let what = if looks_like_json(&front) {
        "JSON, as Paddle 3.x writes to .json, not a ProgramDesc"
    } else if looks_like_pickle(&front) {
        PICKLE
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("the file is {what}")))
}

/// Part of the error message for a file that is a pickle.
pub(crate) const PICKLE: &str = "a Python pickle, which may run any code and is never opened here; load it with \
     paddle.load and save the model with paddle.jit.save or paddle.static.save_inference_model";

/// Returns true if a file that begins with these bytes looks like a Python pickle of protocol 2 to
/// 5.
pub(crate) fn looks_like_pickle(front: &[u8]) -> bool {
    matches!(front, [0x80, 2..=5, ..])
}

fn variable<S: ReadAt + ?Sized>(
    cursor: &mut WireCursor<SourceInput<'_, S>>,
    block: usize,
    place: Range<u64>,
) -> Result<PaddleVariable> {
    let size = place.end - place.start;
    if size > MAX_VAR_SIZE {
        let message = format!("a variable has {size} bytes, over the limit of {MAX_VAR_SIZE}");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    let var = VarDesc::decode(cursor.bytes(place.clone())?)
        .map_err(|error| Error::invalid(format!("a variable can't be decoded: {error}")))?;
    Ok(PaddleVariable::new(block, var, place))
}

/// A parameter as a program declares it. Its stream in a parameter file must match the declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterSpec {
    pub(crate) name: String,
    pub(crate) kind: StreamKind,
    dtype: Option<Type>,
    dims: Option<Vec<i64>>,
    /// Offset of the parameter's `VarDesc` in its program; `None` if the spec doesn't come from a
    /// program.
    at: Option<u64>,
}

impl ParameterSpec {
    /// Creates the spec for a parameter with this name and kind. The spec matches any type and
    /// dims.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: StreamKind) -> Self {
        ParameterSpec {
            name: name.into(),
            kind,
            dtype: None,
            dims: None,
            at: None,
        }
    }

    /// Creates the spec for a dense tensor with this type and these dims. A dim of -1 is unknown,
    /// and matches any size.
    #[must_use]
    pub fn dense(name: impl Into<String>, dtype: Type, dims: impl Into<Vec<i64>>) -> Self {
        ParameterSpec {
            dtype: Some(dtype),
            dims: Some(dims.into()),
            ..ParameterSpec::new(name, StreamKind::Dense)
        }
    }

    /// Returns the parameter's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn of(variable: &PaddleVariable) -> Result<ParameterSpec> {
        let kind = match variable.kind() {
            Some(Type::LodTensor) => StreamKind::Dense,
            Some(Type::SelectedRows) => StreamKind::SelectedRows,
            Some(Type::Vocab) => StreamKind::Vocabulary,
            other => {
                let number = variable.kind_number.to_string();
                let other = other.map_or(number.as_str(), |kind| kind.as_str_name());
                let message = format!(
                    "a persistable variable of type {other} can't be stored in any known file"
                );
                let error = Error::new(ErrorKind::UnsupportedVersion, message);
                return Err(error
                    .at_path(&variable.name)
                    .at_offset(variable.place.start));
            }
        };
        Ok(ParameterSpec {
            name: variable.name.clone(),
            kind,
            dtype: variable.dtype(),
            dims: variable.dims.clone(),
            at: Some(variable.place.start),
        })
    }

    /// Adds the offset of the parameter's `VarDesc` in the program, if known, to an error about the
    /// parameter's name.
    pub(crate) fn located(&self, error: Error) -> Error {
        match self.at {
            Some(at) => error.at_offset(at),
            None => error,
        }
    }

    /// Fails if a stream differs from this spec in its type or dims. Paddle itself accepts any type
    /// and dims.
    pub(crate) fn check(&self, stream: &Stream) -> Result<()> {
        let Some(dtype) = stream.dtype() else {
            return Ok(());
        };
        match self.difference(dtype, stream.dims(), stream.height()) {
            None => Ok(()),
            Some(what) => {
                let message =
                    format!("the stream has {what}; the parameters may be in another order");
                Err(Error::new(ErrorKind::InvalidMessage, message).at_offset(stream.range().start))
            }
        }
    }

    /// Fails if a tensor to be written differs from this spec in its kind, type or dims.
    pub(crate) fn check_tensor(&self, tensor: &TensorSpec) -> Result<()> {
        let differs = if tensor.kind() == self.kind {
            self.difference(tensor.dtype(), tensor.dims(), tensor.height())
        } else {
            let (wanted, found) = (self.kind, tensor.kind());
            Some(format!("the kind {found}, but the program has {wanted}"))
        };
        match differs {
            None => Ok(()),
            Some(what) => {
                let message = format!("the tensor has {what}");
                Err(Error::new(ErrorKind::InvalidConfig, message).at_path(&self.name))
            }
        }
    }

    /// Returns a message that describes how the type or dims of a tensor differ from this spec;
    /// `None` if they are the same.
    fn difference(&self, dtype: Type, dims: &[u64], height: i64) -> Option<String> {
        if let Some(wanted) = self.dtype.filter(|wanted| *wanted != dtype) {
            let (wanted, found) = (wanted.as_str_name(), dtype.as_str_name());
            return Some(format!("data type {found}, but the program has {wanted}"));
        }
        let wanted = self.dims.as_ref()?;
        // For SelectedRows, the program declares the dims of the whole matrix, so compares
        // `height`.
        let mut found: Vec<i64> = dims.iter().map(|dim| dim.cast_signed()).collect();
        if let (StreamKind::SelectedRows, Some(first)) = (self.kind, found.first_mut()) {
            *first = height;
        }
        let fits = |(wanted, found): (&i64, &i64)| *wanted < 0 || wanted == found;
        if wanted.len() == found.len() && wanted.iter().zip(&found).all(fits) {
            None
        } else {
            Some(format!("dims {found:?}, but the program has {wanted:?}"))
        }
    }
}

/// Returns the variables that are parameters. They are sorted by the bytes of their names, which is
/// the order in which Paddle writes them.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessage`] if two parameters have the same name;
/// [`ErrorKind::UnsupportedVersion`] if a parameter has a kind that can't be stored in a file.
pub fn parameters(variables: &[PaddleVariable]) -> Result<Vec<ParameterSpec>> {
    let of = variables.iter().filter(|variable| variable.is_parameter());
    in_order(of.map(ParameterSpec::of).collect::<Result<_>>()?)
}

/// Sorts parameters by name, as Paddle writes them. Fails if two have the same name.
fn in_order(mut specs: Vec<ParameterSpec>) -> Result<Vec<ParameterSpec>> {
    specs.sort_by(|a, b| a.name.cmp(&b.name));
    let twice = specs
        .windows(2)
        .find(|pair| pair[0].name.cmp(&pair[1].name) == Ordering::Equal);
    match twice {
        Some(pair) => {
            let message = format!("the program has two parameters {:?}", pair[0].name);
            Err(pair[1].located(Error::new(ErrorKind::InvalidMessage, message)))
        }
        None => Ok(specs),
    }
}
