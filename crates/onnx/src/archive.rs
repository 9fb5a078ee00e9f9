//! The tensors of an ONNX model by name, as every archive has them.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::OnceLock;

use proto_splitter_core::formats::{Archive, Checks, Verified};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::tensor::{DType, Location, TensorInfo, TensorReader};
use proto_splitter_core::{Error, ErrorKind, Result};

use crate::proto::tensor_proto::DataType;
use crate::reference::ExternalReference;
use crate::source::OnnxSource;
use crate::tensor_rule::TENSOR;
use crate::tensors::{ModelTensor, ModelTensors};

/// The tensors of a model that is open. They are looked for when they are first asked for.
#[derive(Debug)]
pub(crate) struct ModelArchive {
    model: OnnxSource,
    tensors: OnceLock<Tensors>,
}

#[derive(Debug)]
struct Tensors {
    all: ModelTensors,
    /// Where each stands in the list, by the name that it has as a member.
    by_name: BTreeMap<String, usize>,
    names: Vec<String>,
}

impl ModelArchive {
    pub(crate) fn new(model: OnnxSource) -> ModelArchive {
        ModelArchive {
            model,
            tensors: OnceLock::new(),
        }
    }

    fn get(&self) -> Result<&Tensors> {
        if let Some(tensors) = self.tensors.get() {
            return Ok(tensors);
        }
        let all = self.model.tensors()?;
        let names = unique_names(&all);
        let by_name = names.iter().cloned().zip(0..).collect();
        let tensors = Tensors {
            all,
            by_name,
            names,
        };
        Ok(self.tensors.get_or_init(|| tensors))
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

    /// The error of a tensor whose data is outside of the message.
    #[cold]
    fn not_read(&self, tensor: ModelTensor<'_>, info: &TensorInfo) -> Error {
        let (file, why) = match self.outside(tensor) {
            Ok(Some(Location::File { path, .. })) if path.exists() => (path, "it was not read"),
            Ok(Some(Location::File { path, .. })) => (path, "no such file"),
            Ok(_) => (PathBuf::from("external data"), "it has no location"),
            Err(error) => return error,
        };
        let message = format!(
            "{}: {why}: the data of tensor {:?} is there",
            file.display(),
            info.name
        );
        Error::new(ErrorKind::Io, message)
    }

    /// The place of data that the message has no bytes of.
    fn outside(&self, tensor: ModelTensor<'_>) -> Result<Option<Location>> {
        let reference = self.get()?.all.reference(tensor)?;
        let place =
            |said: ExternalReference| Location::file(self.model.shown(&said.location), said.offset);
        Ok(reference.map(place))
    }

    /// The file that a byte of the message is in.
    fn located(&self, offset: u64) -> Option<Location> {
        use proto_splitter_core::rope::RopeSpan;
        match self.model.rope().locate(offset)? {
            (RopeSpan::File(file, at), _) => Some(Location::file(self.model.rope().file(file), at)),
            _ => None,
        }
    }
}

impl Archive for ModelArchive {
    fn tensors(&self) -> Result<Vec<TensorInfo>> {
        let tensors = self.get()?;
        let named = tensors.all.iter().zip(&tensors.names);
        named
            .map(|(tensor, name)| self.info(tensor, name))
            .collect()
    }

    fn find(&self, name: &str) -> Result<Option<TensorInfo>> {
        let tensors = self.get()?;
        let by_path = || tensors.all.iter().position(|tensor| tensor.path() == name);
        let Some(at) = tensors.by_name.get(name).copied().or_else(by_path) else {
            return Ok(None);
        };
        let (tensor, name) = (tensors.all.get(at), tensors.names.get(at));
        match (tensor, name) {
            (Some(tensor), Some(name)) => self.info(tensor, name).map(Some),
            _ => Ok(None),
        }
    }

    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        let tensors = self.get()?;
        let at = tensors.by_name.get(&info.name);
        let Some(tensor) = at.and_then(|&at| tensors.all.get(at)) else {
            let message = format!("there is no tensor {:?}", info.name);
            return Err(Error::new(ErrorKind::InvalidPath, message));
        };
        if tensor.is_external() {
            return Err(self.not_read(tensor, info));
        }
        Ok(TensorReader::new(info.clone(), move |sink| {
            tensors.all.write_raw(tensor, sink).map(drop)
        }))
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
        // All data is read, so that what can't be read is found.
        let total = tensors.all.iter().filter_map(|one| one.raw_len()).sum();
        let meter = progress.meter(total);
        for tensor in tensors.all.iter().filter(|one| one.raw_len().is_some()) {
            let bytes = tensors.all.write_raw(tensor, &mut std::io::sink())?;
            meter.advance(bytes)?;
        }
        let checks = if has_checksums {
            Checks::Checksums
        } else {
            Checks::Structure
        };
        Ok(Verified::new(tensors.all.len() as u64, total, checks))
    }
}

/// What each tensor is called where names have to differ: by its name, or else its path.
pub(crate) fn unique_names(all: &ModelTensors) -> Vec<String> {
    let mut taken = HashSet::with_capacity(all.len());
    let name = |tensor: ModelTensor<'_>| match tensor.name() {
        name if name.is_empty() || !taken.insert(name.to_owned()) => tensor.path(),
        name => name.to_owned(),
    };
    all.iter().map(name).collect()
}

/// What a tensor is, but for where.
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

fn dtype(data_type: DataType) -> DType {
    let element = TENSOR.element(u64::from(i32::from(data_type).unsigned_abs()));
    element.map_or(DType::Other("undefined"), |element| element.dtype)
}
