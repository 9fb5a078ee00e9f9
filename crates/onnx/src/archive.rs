//! An implementation of [`Archive`] that finds the tensors of an ONNX model by name.

use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use proto_splitter_core::formats::{Archive, Checks, TensorIter, Verified};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::spans::{SourceId, SpanSource};
use proto_splitter_core::tensor::{DType, Location, TensorInfo, TensorReader};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::proto::tensor_proto::DataType;
use crate::reference::ExternalReference;
use crate::source::OnnxSource;
use crate::tensor_rule::TENSOR;
use crate::tensors::{ModelTensor, ModelTensors};

/// An archive of the tensors of an open model. The tensors are listed on first use.
#[derive(Debug)]
pub(crate) struct ModelArchive {
    model: OnnxSource,
    tensors: OnceLock<Tensors>,
}

#[derive(Debug)]
struct Tensors {
    all: ModelTensors,
    names: UniqueNames,
}

impl ModelArchive {
    pub(crate) fn new(model: OnnxSource) -> ModelArchive {
        ModelArchive {
            model,
            tensors: OnceLock::new(),
        }
    }

    /// Returns true if an archive is that of a model in the header of a safetensors file.
    pub(crate) fn is_embedded(archive: &dyn Archive) -> bool {
        let archive: &dyn Any = archive;
        let archive = archive.downcast_ref::<ModelArchive>();
        archive.is_some_and(|archive| archive.model.is_embedded())
    }

    fn get(&self) -> Result<&Tensors> {
        if let Some(tensors) = self.tensors.get() {
            return Ok(tensors);
        }
        let all = self.model.tensors()?;
        let names = UniqueNames::of(&all);
        Ok(self.tensors.get_or_init(|| Tensors { all, names }))
    }

    fn info(&self, tensor: ModelTensor<'_>, name: &str) -> Result<TensorInfo> {
        let location = match tensor.raw_data() {
            Some(range) => self.located(range.start),
            None if tensor.is_external() => self.outside(tensor)?,
            None => None,
        };
        let location = location.unwrap_or_else(|| Location::entry(tensor.path(), 0));
        Ok(info(tensor, name)?.located(location))
    }

    /// Returns the tensor that `info` describes, and the tensors of the model.
    fn described(&self, info: &TensorInfo) -> Result<Option<(&ModelTensors, ModelTensor<'_>)>> {
        let Tensors { all, names } = self.get()?;
        let mut found = names.find(all, &info.name).filter_map(|at| all.get(at));
        let (first, second) = (found.next(), found.next());
        // If a tensor's name is the path of an unnamed tensor, both are found by this name.
        let is_second = match second {
            Some(second) => self.info(second, &info.name)? == *info,
            None => false,
        };
        let tensor = if is_second { second } else { first };
        Ok(tensor.map(|tensor| (all, tensor)))
    }

    /// Returns the error for reading a tensor whose data isn't in the message: its file is missing,
    /// or was not read.
    #[cold]
    fn not_read(&self, tensor: ModelTensor<'_>, info: &TensorInfo) -> Error {
        let (file, why) = match self.outside(tensor) {
            Ok(Some(Location::File { path, .. })) if path.exists() => (path, "not read"),
            Ok(Some(Location::File { path, .. })) => (path, "no such file"),
            Ok(_) => (PathBuf::from("external data"), "it has no location"),
            Err(error) => return error,
        };
        let message = format!(
            "{}: {why}: needed for the data of tensor {:?}",
            file.display(),
            info.name
        );
        Error::new(ErrorKind::Io, message)
    }

    /// Returns the external file, and the offset in it, to which the tensor refers for its data;
    /// `None` if the reference is invalid.
    fn outside(&self, tensor: ModelTensor<'_>) -> Result<Option<Location>> {
        let reference = self.get()?.all.reference(tensor)?;
        let place =
            |said: ExternalReference| Location::file(self.model.shown(&said.location), said.offset);
        Ok(reference.map(place))
    }

    /// Returns the file, and the offset in it, of the byte at `offset` of the message; `None` if
    /// the byte isn't from a file.
    fn located(&self, offset: u64) -> Option<Location> {
        let (file, at) = self.stored_at(offset)?;
        Some(Location::file(self.model.spans().file(file), at))
    }

    /// Returns the file, and the offset in it, of the byte at `offset` of the message; `None` if
    /// the byte isn't from a file.
    fn stored_at(&self, offset: u64) -> Option<(SourceId, u64)> {
        match self.model.spans().locate(offset)?.source {
            SpanSource::Stored(file, at) => Some((file, at)),
            SpanSource::Literal(_) => None,
        }
    }
}

impl Archive for ModelArchive {
    fn tensors(&self) -> Result<Vec<TensorInfo>> {
        self.tensor_iter()?.collect()
    }

    fn tensor_iter(&self) -> Result<TensorIter<'_>> {
        let Tensors { all, names } = self.get()?;
        let named = all.iter().enumerate();
        Ok(Box::new(named.map(|(at, tensor)| {
            self.info(tensor, &names.get(at, tensor))
        })))
    }

    fn find(&self, name: &str) -> Result<Option<TensorInfo>> {
        let Tensors { all, names } = self.get()?;
        let by_path = || all.iter().position(|tensor| tensor.path() == name);
        let at = names.find(all, name).next().or_else(by_path);
        let found = at.and_then(|at| Some((at, all.get(at)?)));
        found
            .map(|(at, tensor)| self.info(tensor, &names.get(at, tensor)))
            .transpose()
    }

    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        let Some((all, tensor)) = self.described(info)? else {
            let message = format!("there is no tensor {:?}", info.name);
            return Err(Error::new(ErrorKind::InvalidPath, message));
        };
        if tensor.is_external() {
            return Err(self.not_read(tensor, info));
        }
        Ok(TensorReader::new(info.clone(), move |sink| {
            all.write_raw(tensor, sink).map(drop)
        }))
    }

    fn tensor_in_file(&self, info: &TensorInfo) -> Option<(&Path, Range<u64>)> {
        if self.model.has_checksums() {
            return None;
        }
        let (_, tensor) = self.described(info).ok()??;
        // Empty data has neither a location nor a last byte.
        let raw = tensor.raw_data().filter(|raw| !raw.is_empty())?;
        let len = raw.end - raw.start;
        if tensor.raw_len() != Some(len) {
            return None;
        }
        let (file, start) = self.stored_at(raw.start)?;
        let (last_file, last) = self.stored_at(raw.end - 1)?;
        // Changes to a message never split the data of a tensor. So if the first and the last byte
        // of the data are in one file, at the right distance, all of it is in this file.
        let is_whole = file == last_file && last.checked_sub(start) == Some(len - 1);
        is_whole.then(|| (self.model.spans().file(file), start..start + len))
    }

    fn properties(&self) -> Result<Vec<(String, String)>> {
        crate::info::properties(&self.model, &self.get()?.all)
    }

    fn verify(&self, progress: &Progress) -> Result<Verified> {
        let tensors = self.get()?;
        if let Some(problem) = tensors.all.problems()?.into_iter().next() {
            return Err(Error::new(ErrorKind::InvalidMessage, problem));
        }
        let has_checksums = self.model.verify_checksums(progress)?;
        // Reads the data of all tensors, to detect unreadable parts.
        let sizes = tensors.all.iter().filter_map(|one| one.raw_len());
        let total = sizes.fold(0, u64::saturating_add);
        let meter = progress.meter(total);
        for tensor in tensors.all.iter().filter(|one| one.raw_len().is_some()) {
            let bytes = tensors.all.write_raw(tensor, &mut std::io::sink())?;
            meter.advance(bytes)?;
        }
        if self.model.external_contexts() > 0 {
            self.model.read_all(progress)?;
        }
        let checks = if has_checksums {
            Checks::Checksums
        } else {
            Checks::Structure
        };
        Ok(Verified::new(tensors.all.len() as u64, total, checks))
    }
}

/// Unique names of tensors. A tensor without a name, or with the name of an earlier tensor, is
/// named by its path.
///
/// Only indices and paths are stored. Names in the model aren't copied, since a model can have
/// millions of tensors.
#[derive(Debug)]
pub(crate) struct UniqueNames {
    /// Indices of the tensors whose unique names are their own names, sorted by name.
    by_name: Vec<usize>,
    /// Paths and indices of the tensors that are named by their paths, sorted by path.
    by_path: Vec<(Box<str>, usize)>,
}

impl UniqueNames {
    pub(crate) fn of(all: &ModelTensors) -> UniqueNames {
        let name = |at: usize| all.get(at).map_or("", |tensor| tensor.name());
        let path = |at: usize| all.get(at).map_or_else(String::new, |tensor| tensor.path());
        let mut by_name: Vec<usize> = (0..all.len()).collect();
        // Tensors with the same name keep their order in the model.
        by_name.sort_unstable_by(|&a, &b| name(a).cmp(name(b)).then(a.cmp(&b)));
        let (mut by_path, mut last) = (Vec::new(), None);
        by_name.retain(|&at| {
            let name = name(at);
            let is_own = !name.is_empty() && last.replace(name) != Some(name);
            if !is_own {
                by_path.push((path(at).into_boxed_str(), at));
            }
            is_own
        });
        by_path.sort_unstable();
        UniqueNames { by_name, by_path }
    }

    /// Returns the unique name of the tensor with index `at`.
    pub(crate) fn get<'a>(&self, at: usize, tensor: ModelTensor<'a>) -> Cow<'a, str> {
        // In most models, all tensors keep their own names. Then no path has to be built.
        if !self.by_path.is_empty() {
            let path = tensor.path();
            if self.at_path(&path) == Some(at) {
                return path.into();
            }
        }
        tensor.name().into()
    }

    /// Returns the indices of the tensor whose own name is `name`, and of the one that is named by
    /// this path, if there are such tensors.
    fn find(&self, all: &ModelTensors, name: &str) -> impl Iterator<Item = usize> {
        let named = |at: usize| all.get(at).map_or("", |tensor| tensor.name());
        let found = self.by_name.binary_search_by(|&at| named(at).cmp(name));
        let found = found.ok().and_then(|found| self.by_name.get(found));
        found.copied().into_iter().chain(self.at_path(name))
    }

    fn at_path(&self, path: &str) -> Option<usize> {
        let found = self.by_path.binary_search_by(|(one, _)| (**one).cmp(path));
        Some(self.by_path.get(found.ok()?)?.1)
    }
}

/// Returns the description of a tensor under the given name, without the location of its data.
pub(crate) fn info(tensor: ModelTensor<'_>, name: &str) -> Result<TensorInfo> {
    let dims = tensor.dims().iter().map(|&dim| {
        u64::try_from(dim).map_err(|_| {
            let message = format!("tensor \"{name}\": its shape is {:?}", tensor.dims());
            Error::new(ErrorKind::InvalidMessage, message).at_path(tensor.path())
        })
    });
    let shape = dims.collect::<Result<Vec<u64>>>()?;
    let number = i64::from(tensor.type_number());
    let dtype = tensor.data_type().map_or(DType::Unknown(number), dtype);
    let bytes = tensor.raw_len().unwrap_or_else(|| tensor.stored_len());
    Ok(TensorInfo::new(name, dtype, shape).sized(bytes))
}

pub(crate) fn dtype(data_type: DataType) -> DType {
    let element = TENSOR.element(u64::from(i32::from(data_type).unsigned_abs()));
    element.map_or(DType::Other("undefined"), |element| element.dtype)
}
