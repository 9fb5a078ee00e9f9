//! Parameter files. Each contains the streams of all parameters, or the stream of a single one.

mod walk;
mod write;

use std::collections::HashMap;
use std::path::Path;

#[cfg(doc)]
use proto_splitter_core::ErrorKind;
use proto_splitter_core::spans::first_bytes;
use proto_splitter_core::{Error, Result};
use record_file::ReadAt;

pub(crate) use write::append_checked;
pub use write::{ParameterWriter, append};

use crate::part::FilePart;
use crate::program::{PICKLE, ParameterSpec, looks_like_pickle};
use crate::stream::{Layout, Stream, StreamKind};

/// A parameter, which is stored as a stream in a parameter file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    name: Option<String>,
    stream: Stream,
}

impl Parameter {
    /// Returns the parameter's name, if it is known from a program. The file itself doesn't contain
    /// names.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the parameter's stream, which contains the positions of the stream's parts in the
    /// file.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

/// An open parameter file, with the location of every stream. Opening it reads only headers.
///
/// ```
/// use proto_splitter_paddle::ParameterFile;
/// use proto_splitter_paddle::proto::framework::var_type::Type;
/// use proto_splitter_paddle::stream::{Layout, TensorSpec, write_stream};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.pdiparams");
/// let mut bytes = Vec::new();
/// for value in [1f32, 2.0] {
///     let scalar = TensorSpec::dense(Type::Fp32, []);
///     write_stream(&mut bytes, &scalar, Layout::Sized, &mut &value.to_le_bytes()[..])?;
/// }
/// std::fs::write(&path, &bytes)?;
///
/// let file = ParameterFile::open(&path, None, None)?;
/// assert_eq!((file.layout(), file.parameters().len()), (Layout::Sized, 2));
/// let mut second = [0; 4];
/// file.parameters()[1].stream().read_data(file.bytes(), &mut second)?;
/// assert_eq!(f32::from_le_bytes(second), 2.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ParameterFile {
    part: FilePart,
    layout: Layout,
    separate: bool,
    parameters: Vec<Parameter>,
    by_name: HashMap<String, usize>,
}

impl ParameterFile {
    /// Opens a file that contains all parameters. `specs` come from the
    /// [program](crate::parameters). They name the streams in order, and each stream must match its
    /// spec. If `specs` is `None`, the kind of each stream is the first of these that is valid:
    /// dense tensor, selected rows, vocabulary. If `layout` is `None`, the layout in which the
    /// whole file is valid is used.
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::read`]; [`ErrorKind::InvalidMessage`] if there are fewer streams
    /// than `specs`, if bytes follow the last stream, or if a stream's type or dims differ from its
    /// spec; [`ErrorKind::Io`] if the file can't be opened or read. Each error names the file, the
    /// parameter and the offset.
    pub fn open(
        path: impl AsRef<Path>,
        specs: Option<&[ParameterSpec]>,
        layout: Option<Layout>,
    ) -> Result<ParameterFile> {
        let part = FilePart::open(path.as_ref())?;
        ParameterFile::combined(part, specs, layout)
    }

    pub(crate) fn combined(
        part: FilePart,
        specs: Option<&[ParameterSpec]>,
        layout: Option<Layout>,
    ) -> Result<ParameterFile> {
        refuse_pickle(&part).map_err(|error| error.in_file(part.path()))?;
        let walked = match layout {
            Some(layout) => walk::walk(&part, specs, layout).map(|streams| (layout, streams)),
            None => walk::detect(&part, specs),
        };
        let (layout, streams) = walked.map_err(|error| error.in_file(part.path()))?;
        let name = |at: usize| Some(specs?.get(at)?.name().to_owned());
        let parameters = streams.into_iter().enumerate();
        let parameters = parameters
            .map(|(at, stream)| Parameter {
                name: name(at),
                stream,
            })
            .collect();
        Ok(ParameterFile::new(part, layout, false, parameters))
    }

    /// Opens a file that contains a single parameter.
    pub(crate) fn separate(
        part: FilePart,
        spec: &ParameterSpec,
        layout: Option<Layout>,
    ) -> Result<ParameterFile> {
        let file = ParameterFile::combined(part, Some(std::slice::from_ref(spec)), layout)?;
        Ok(ParameterFile {
            separate: true,
            ..file
        })
    }

    fn new(
        part: FilePart,
        layout: Layout,
        separate: bool,
        parameters: Vec<Parameter>,
    ) -> ParameterFile {
        let names = parameters.iter().enumerate();
        let by_name = names
            .filter_map(|(at, parameter)| Some((parameter.name.clone()?, at)))
            .collect();
        ParameterFile {
            part,
            layout,
            separate,
            parameters,
            by_name,
        }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.part.path()
    }

    /// Returns the layout of the file's streams.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns true if the file contains a single parameter and is named after it; false if it
    /// contains all parameters.
    #[must_use]
    pub fn is_separate(&self) -> bool {
        self.separate
    }

    /// Returns the parameters in file order. The index of a parameter is its counter.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Returns the parameter with this name; `None` if the file doesn't have it.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.get(*self.by_name.get(name)?)
    }

    /// Returns the bytes of the file, for [`Stream::read_data`] and similar methods.
    #[must_use]
    pub fn bytes(&self) -> &(dyn ReadAt + 'static) {
        &self.part
    }

    pub(crate) fn part(&self) -> &FilePart {
        &self.part
    }

    /// Checks the content that isn't checked when the file is opened: LoD offsets, row numbers, and
    /// the words of vocabularies. Also fails if the file has changed since it was opened.
    ///
    /// # Errors
    ///
    /// The errors of [`Stream::verify`], with the file and the parameter;
    /// [`ErrorKind::SourceChanged`] if the file has changed.
    pub fn verify(&self) -> Result<()> {
        self.check_content()?;
        self.part.check_unchanged()
    }

    /// Does the same as [`verify`](Self::verify), but doesn't detect changes to the file, nor to
    /// others that were opened with it.
    pub(crate) fn check_content(&self) -> Result<()> {
        for (at, parameter) in self.parameters.iter().enumerate() {
            parameter.stream.verify(&self.part).map_err(|error| {
                let name = parameter
                    .name
                    .clone()
                    .unwrap_or_else(|| format!("tensor {at}"));
                error.at_path(name).in_file(self.path())
            })?;
        }
        Ok(())
    }
}

/// Fails if a file is a Python pickle. Pickles can contain tensors, too, and are often mistaken for
/// parameter files.
fn refuse_pickle(part: &FilePart) -> Result<()> {
    if looks_like_pickle(&first_bytes(part, 2)?) {
        Err(Error::invalid(format!("the file is {PICKLE}")))
    } else {
        Ok(())
    }
}

/// Returns a name for the stream with this index, to use in error messages.
fn described(specs: Option<&[ParameterSpec]>, at: usize) -> String {
    match specs.and_then(|specs| specs.get(at)) {
        Some(spec) => spec.name().to_owned(),
        None => format!("tensor {at}"),
    }
}

/// Returns the expected kind of the stream with this index.
fn kind(specs: Option<&[ParameterSpec]>, at: usize) -> StreamKind {
    let spec = specs.and_then(|specs| specs.get(at));
    spec.map_or(StreamKind::Dense, |spec| spec.kind)
}
