//! The checkpoint format, for the registry of file formats.

use std::sync::Arc;

use proto_splitter_core::formats::{
    Archive, Candidate, CandidateKind, Checks, Confidence, Format, OpenOptions, Opened, Verified,
};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::tensor::{DType, Location as Place, TensorInfo, TensorReader};
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::TENSOR;
use proto_splitter_graph_def::proto::DataType;

use crate::bundle::Bundle;
use crate::files::{data_path, index_path, prefix_of};
use crate::index::{Tensor, TensorLocation};
use crate::options::BundleOptions;

/// The format of a TensorFlow checkpoint, version V2. A checkpoint is opened by the common prefix
/// of its files, or by the path of any of them.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Registry};
/// use proto_splitter_graph_def::proto::DataType;
/// use proto_splitter_tensor_bundle::{BundleOptions, BundlePlan, CheckpointFormat, NewTensor};
///
/// static FORMATS: Registry = Registry::new(&[&CheckpointFormat]);
///
/// let folder = tempfile::tempdir()?;
/// let prefix = folder.path().join("ckpt");
/// let bytes = vec![0; 8];
/// let tensor = NewTensor::new("w", DataType::DtFloat, [2], &bytes);
/// BundlePlan::new(vec![tensor], 1)?.write(&prefix, &BundleOptions::new())?;
///
/// let opened = FORMATS.open(&prefix, &OpenOptions::new())?;
/// assert_eq!(opened.tensors()?[0].to_string(), "w float32[2]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckpointFormat;

/// Last eight bytes of an index file.
const MAGIC: [u8; 8] = 0xdb47_7524_8b80_fb57_u64.to_le_bytes();

impl Format for CheckpointFormat {
    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn title(&self) -> &'static str {
        "TensorFlow checkpoint"
    }

    fn recognize(&self, candidate: &Candidate<'_>) -> Option<Confidence> {
        match candidate.kind() {
            CandidateKind::Prefix => candidate.continued(".index").map(|_| Confidence::Certain),
            CandidateKind::File => {
                let prefix = prefix_of(candidate.path())?;
                if candidate.tail().ends_with(&MAGIC) {
                    return Some(Confidence::Certain);
                }
                let is_data = index_path(&prefix) != candidate.path();
                (is_data && index_path(&prefix).is_file()).then_some(Confidence::Likely)
            }
            CandidateKind::Folder => None,
        }
    }

    fn open(&self, input: &Candidate<'_>, _options: &OpenOptions) -> Result<Opened> {
        let bundle = Bundle::open(input.local_path()?)?;
        let files: Vec<_> = bundle.files().collect();
        Ok(Opened::of_archive(bundle).reading(files))
    }
}

impl Archive for Bundle {
    fn tensors(&self) -> Result<Vec<TensorInfo>> {
        let tensors = Bundle::tensors(self).iter();
        Ok(tensors.map(|tensor| info(self, tensor)).collect())
    }

    fn find(&self, name: &str) -> Result<Option<TensorInfo>> {
        Ok(Bundle::find(self, name).map(|tensor| info(self, tensor)))
    }

    fn read(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        let Some(tensor) = Bundle::find(self, &info.name) else {
            let message = format!("there is no tensor {:?}", info.name);
            return Err(Error::new(ErrorKind::InvalidPath, message));
        };
        let reader = self.reader(tensor)?;
        let len = reader.len();
        let info = self::info(self, tensor);
        Ok(TensorReader::of_range(info, Arc::new(reader), 0..len))
    }

    fn properties(&self) -> Result<Vec<(String, String)>> {
        let shards = self.num_shards().to_string();
        Ok(vec![("data files".to_owned(), shards)])
    }

    fn verify(&self, progress: &Progress) -> Result<Verified> {
        let options = BundleOptions::new().progress(progress.clone());
        let verified = Bundle::verify(self, &options)?;
        let (tensors, bytes) = (verified.tensors, verified.bytes);
        Ok(Verified::new(tensors, bytes, Checks::Checksums))
    }
}

fn info(bundle: &Bundle, tensor: &Tensor) -> TensorInfo {
    let shape = tensor.shape().to_vec();
    let place = match tensor.location() {
        TensorLocation::Whole(span) => {
            let path = data_path(bundle.prefix(), span.shard, bundle.num_shards());
            Place::file(path, span.offset)
        }
        TensorLocation::Slices(slices) => Place::entry(format!("{} slices", slices.len()), 0),
    };
    TensorInfo::new(tensor.name(), dtype(tensor.dtype()), shape)
        .sized(tensor.size())
        .located(place)
}

/// Converts a TensorFlow data type to a [`DType`], using the element types in `TENSOR`, the rule
/// for tensors in graphs.
fn dtype(of: DataType) -> DType {
    let number = i64::from(i32::from(of));
    let known = TENSOR.element(number.cast_unsigned());
    known.map_or(DType::Unknown(number), |rule| rule.dtype)
}
