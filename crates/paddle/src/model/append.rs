//! Appending a tensor to the parameters of a model.

use std::io::Read;
use std::path::{Path, PathBuf};

use proto_splitter_core::{Error, ErrorKind, Result};

use super::{PaddleOpenOptions, open_program};
use crate::parameters::append_checked;
use crate::stream::TensorSpec;

/// The location of an appended tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// Path of the file to which the tensor was appended.
    pub file: PathBuf,
    /// Index of the tensor in the file, starting at 0.
    pub counter: u64,
    /// Name of the tensor's parameter in the program; `None` if there is no program.
    pub name: Option<String>,
    /// Size of the tensor's data, in bytes.
    pub bytes: u64,
}

/// Appends a tensor to the parameters of a model. The parameters must be in a single file in the
/// sized layout. `path` is any path that [`PaddleModel::open`](super::PaddleModel::open) accepts for
/// the model. The parameter file may also be empty, if `path` or the options name it.
///
/// If there is a program, the tensor must be the program's next parameter in the order of names,
/// since the tensors in a file are in this order. `data` must have exactly as many bytes as the
/// tensor. As with [`append`](crate::append), the existing content is unchanged. If appending
/// fails, the file is truncated to its old size.
///
/// ```
/// use proto_splitter_paddle::proto::framework::var_type::Type;
/// use proto_splitter_paddle::stream::TensorSpec;
/// use proto_splitter_paddle::{PaddleOpenOptions, append_to_model};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("parameters");
/// std::fs::write(&path, [])?;
///
/// let pair = TensorSpec::dense(Type::Int8, [2]);
/// let options = PaddleOpenOptions::new();
/// assert_eq!(append_to_model(&path, &options, &pair, &mut &[1, 2][..])?.counter, 0);
/// assert_eq!(append_to_model(&path, &options, &pair, &mut &[3, 4][..])?.counter, 1);
/// assert!(append_to_model(&path, &options, &pair, &mut &[5, 6, 7][..]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of [`PaddleModel::open`](super::PaddleModel::open) for the program, and of
/// [`append`](crate::append); [`ErrorKind::InvalidConfig`] if each parameter is in a separate file,
/// if the file already has all parameters of the program, if the tensor's type or dims differ from
/// those of the next parameter, if a level of LoD isn't sorted or doesn't run from 0 to the number
/// of items that it divides, or if `data` has more bytes than the tensor.
pub fn append_to_model(
    path: impl AsRef<Path>,
    options: &PaddleOpenOptions,
    spec: &TensorSpec,
    data: &mut impl Read,
) -> Result<Appended> {
    let path = path.as_ref();
    let invalid = |message: String| Error::new(ErrorKind::InvalidConfig, message);
    let found = options.find(path)?;
    let Some(file) = found.parameters else {
        let message = "each parameter is in a separate file: there is none to append to";
        return Err(invalid(message.to_owned()).in_file(path));
    };
    spec.check_lod()?;
    let bytes = spec.data_size()?;
    let program = found.program.as_deref().map(open_program).transpose()?;
    let mut name = None;
    let next = |counter: u64| {
        let Some(program) = &program else {
            return Ok(());
        };
        let at = usize::try_from(counter).unwrap_or(usize::MAX);
        let Some(parameter) = program.specs.get(at) else {
            let count = program.specs.len();
            let message = format!("the file already has all {count} parameters of the program");
            return Err(invalid(message).in_file(&file));
        };
        name = Some(parameter.name().to_owned());
        let checked = parameter.check_tensor(spec);
        checked.map_err(|error| error.in_file(&file))
    };
    let ends = |data: &mut _| match Read::bytes(data).next() {
        None => Ok(()),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(_)) => Err(invalid(format!(
            "the data has more than the {bytes} bytes of the tensor"
        ))),
    };
    let counter = append_checked(&file, spec, data, next, ends)?;
    Ok(Appended {
        file,
        counter,
        name,
        bytes,
    })
}
