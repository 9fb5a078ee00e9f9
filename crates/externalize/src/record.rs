//! What the original model was: kept beside an externalized one, so that it can be had again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use proto_splitter_core::atomic::{AtomicFile, at_target};
use proto_splitter_core::rope::{Rope, RopeBuilder};
use proto_splitter_core::wire::put_varint;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_tensor_bundle::{Bundle, BundleOptions, TensorLocation, data_path, index_path};
use record_file::ReadAt;

use crate::constant::{Constant, Encoding, SpanReader, Varints};
use crate::content::Contents;
use crate::options::ExternalizeOptions;

/// The file in a model's folder.
pub const RECORD_FILE: &str = "assets.extra/proto_splitter_original.pb";

/// The folder of the files that constants are mapped from, in the model's.
pub(crate) const MAPPED_FOLDER: &str = "assets.extra/proto_splitter_mapped";

/// The most bytes that the file may have: the rest of a model, and a name for each constant.
const MAX_RECORD: u64 = crate::scan::MAX_REST * 2;

/// The version of the file that is written and read.
const VERSION: u32 = 1;

/// The file, as a protobuf message: the original `saved_model.pb` is its pieces, one behind the
/// other.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Record {
    #[prost(uint32, tag = "1")]
    version: u32,
    /// Bytes of the original.
    #[prost(uint64, tag = "2")]
    size: u64,
    /// The BLAKE3 hash of the `saved_model.pb` that this belongs to.
    #[prost(bytes = "vec", tag = "3")]
    model: Vec<u8>,
    #[prost(message, repeated, tag = "4")]
    pieces: Vec<Piece>,
    /// Whether each content is in a file of its own, and not in a bundle.
    #[prost(bool, tag = "5")]
    mapped: bool,
}

/// A run of bytes of the original.
#[derive(Clone, PartialEq, Message)]
struct Piece {
    /// These bytes, and behind them the content.
    #[prost(bytes = "vec", tag = "1")]
    literal: Vec<u8>,
    /// The name of a tensor in the bundle; none at the end.
    #[prost(string, tag = "2")]
    content: String,
    /// Bytes of an element, if the content is a list of varints.
    #[prost(uint32, tag = "3")]
    width: u32,
    /// Whether negative ones have 64 bits.
    #[prost(bool, tag = "4")]
    signed: bool,
}

impl Record {
    /// What to keep of a model of `size` bytes.
    pub(crate) fn new(
        data: &dyn ReadAt,
        size: u64,
        constants: &[Constant],
        contents: &Contents,
    ) -> Result<Record> {
        let mut pieces = Vec::with_capacity(constants.len() + 1);
        let mut position = 0;
        let literal = |from: u64, to: u64| -> Result<Vec<u8>> {
            // The walk has seen to it that the rest is small.
            let len = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
            let mut bytes = vec![0; len];
            data.read_exact_at(from, &mut bytes)?;
            Ok(bytes)
        };
        for constant in constants {
            let Some(content) = contents.of.get(&constant.place) else {
                continue;
            };
            let (width, signed) = match constant.encoding {
                Encoding::Raw => (0, false),
                Encoding::Varints(varints) => {
                    (u32::try_from(varints.width).unwrap_or(0), varints.signed)
                }
            };
            pieces.push(Piece {
                literal: literal(position, constant.span.start)?,
                content: contents.all[*content].key.clone(),
                width,
                signed,
            });
            position = constant.span.end;
        }
        pieces.push(Piece {
            literal: literal(position, size)?,
            ..Piece::default()
        });
        Ok(Record {
            version: VERSION,
            size,
            model: Vec::new(),
            pieces,
            mapped: false,
        })
    }

    /// The same where each content is in a file of its own.
    pub(crate) fn mapped(self) -> Record {
        Record {
            mapped: true,
            ..self
        }
    }

    /// The files in a model's folder that are there for the externalized model alone.
    pub(crate) fn files(&self, folder: &Path) -> Vec<PathBuf> {
        let mut files = vec![folder.join(RECORD_FILE)];
        if self.mapped {
            let keys = self.pieces.iter().filter(|piece| !piece.content.is_empty());
            let mapped = folder.join(MAPPED_FOLDER);
            files.extend(keys.map(|piece| mapped.join(&piece.content)));
            files.sort();
            files.dedup();
        } else {
            let prefix = bundle_prefix(folder);
            files.extend([index_path(&prefix), data_path(&prefix, 0, 1)]);
        }
        files
    }

    /// Writes it to the folder of the model, whose `saved_model.pb` has these bytes.
    pub(crate) fn write(mut self, folder: &Path, model: &[u8]) -> Result<()> {
        self.model = blake3::hash(model).as_bytes().to_vec();
        let path = folder.join(RECORD_FILE);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .map_err(|error| Error::from(error).context(parent.display()))?;
        }
        let mut file = AtomicFile::create(&path, true)?;
        let written = file.as_file_mut().write_all(&self.encode_to_vec());
        written.map_err(|error| at_target(error.into(), &path))?;
        file.commit()
    }

    /// The record in a model's folder; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If it can't be read, or belongs to another `saved_model.pb` than the one that is there.
    pub(crate) fn read(folder: &Path) -> Result<Option<Record>> {
        let path = folder.join(RECORD_FILE);
        let at_path = |error: Error| error.context(path.display());
        match fs::metadata(&path) {
            Ok(metadata) if metadata.len() <= MAX_RECORD => {}
            Ok(metadata) => {
                let message = format!(
                    "{} bytes, and at most {MAX_RECORD} are read",
                    metadata.len()
                );
                return Err(at_path(Error::new(ErrorKind::LimitExceeded, message)));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at_path(error.into())),
        }
        let bytes = fs::read(&path).map_err(|error| at_path(error.into()))?;
        let record = Record::decode(bytes.as_slice())
            .map_err(|error| at_path(Error::new(ErrorKind::InvalidMessage, error.to_string())))?;
        if record.version != VERSION {
            let message = format!(
                "a record of version {}, and {VERSION} is read",
                record.version
            );
            return Err(at_path(Error::new(ErrorKind::UnsupportedVersion, message)));
        }
        let model = folder.join("saved_model.pb");
        let at_model = |error: std::io::Error| Error::from(error).context(model.display());
        let mut hash = blake3::Hasher::new();
        std::io::copy(&mut File::open(&model).map_err(at_model)?, &mut hash).map_err(at_model)?;
        if hash.finalize().as_bytes().as_slice() != record.model {
            let message = format!("{} was changed since it was externalized", model.display());
            return Err(Error::new(ErrorKind::ChecksumMismatch, message));
        }
        Ok(Some(record))
    }

    /// Reads the bundle in this folder and checks it against its checksums. Files that are mapped
    /// have none.
    pub(crate) fn check(&self, folder: &Path, options: &ExternalizeOptions) -> Result<()> {
        if self.mapped {
            return Ok(());
        }
        let verify = BundleOptions::new()
            .progress(options.progress.clone())
            .threads(options.thread_count());
        Bundle::open(bundle_prefix(folder))?.verify(&verify)?;
        Ok(())
    }

    /// The original of the model in this folder.
    pub(crate) fn original(&self, folder: &Path) -> Result<Rope> {
        let mut stored = if self.mapped {
            Stored::Files(folder.join(MAPPED_FOLDER))
        } else {
            Stored::Bundle(Bundle::open(bundle_prefix(folder))?)
        };
        let mut rope = RopeBuilder::new();
        let mut files = BTreeMap::new();
        let mut spool = None;
        for piece in &self.pieces {
            rope.literal(&piece.literal)?;
            if piece.content.is_empty() {
                continue;
            }
            let (path, range) = stored.place(&piece.content)?;
            let file = match files.get(&path) {
                Some(file) => *file,
                None => {
                    let file = rope.open(&path)?;
                    files.insert(path.clone(), file);
                    file
                }
            };
            if piece.width == 0 {
                rope.span(file, range)?;
                continue;
            }
            let width = usize::try_from(piece.width)
                .ok()
                .filter(|width| (1..=8).contains(width));
            let Some(width) = width else {
                let message = format!("varints of {} bytes", piece.width);
                return Err(Error::new(ErrorKind::InvalidMessage, message));
            };
            let varints = Varints {
                width,
                signed: piece.signed,
            };
            let spool = match &mut spool {
                Some(spool) => spool,
                none => none.insert(Spool::new()?),
            };
            let tensor =
                File::open(&path).map_err(|error| Error::from(error).context(path.display()))?;
            let tensor = SpanReader::new(Arc::new(tensor), range);
            let range = spool.encode(&tensor, varints)?;
            let file: Arc<dyn ReadAt> = Arc::clone(&spool.file) as Arc<dyn ReadAt>;
            let file = rope.reader("a temporary file", file)?;
            rope.span(file, range)?;
        }
        let rope = rope.finish()?;
        if rope.total_size() != self.size {
            let message = format!(
                "the original had {} bytes, and its pieces have {}",
                self.size,
                rope.total_size()
            );
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        }
        Ok(rope)
    }
}

/// Where the contents are.
enum Stored {
    Bundle(Bundle),
    /// In files of this folder.
    Files(PathBuf),
}

impl Stored {
    /// The file that a content is in, and where in it.
    fn place(&mut self, key: &str) -> Result<(PathBuf, Range<u64>)> {
        let invalid = |message: String| Err(Error::new(ErrorKind::InvalidMessage, message));
        match self {
            Stored::Bundle(bundle) => {
                let Some(tensor) = bundle.find(key) else {
                    return invalid(format!("the bundle has no tensor {key:?}"));
                };
                let TensorLocation::Whole(span) = tensor.location() else {
                    return invalid(format!("the tensor {key:?} is in slices"));
                };
                let path = data_path(bundle.prefix(), span.shard, bundle.num_shards());
                Ok((path, span.offset..span.offset + span.size))
            }
            Stored::Files(folder) => {
                // Nothing that leads elsewhere.
                if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return invalid(format!("{key:?} can't be the name of a content"));
                }
                let path = folder.join(key);
                let metadata = fs::metadata(&path)
                    .map_err(|error| Error::from(error).context(path.display()))?;
                Ok((path, 0..metadata.len()))
            }
        }
    }
}

/// The bundle of a model in this folder.
pub(crate) fn bundle_prefix(folder: &Path) -> PathBuf {
    folder.join("assets").join(crate::rewrite::BUNDLE_NAME)
}

/// Lists of varints, in a temporary file.
struct Spool {
    file: Arc<File>,
    len: u64,
}

impl Spool {
    fn new() -> Result<Spool> {
        Ok(Spool {
            file: Arc::new(tempfile::tempfile()?),
            len: 0,
        })
    }

    fn encode(&mut self, tensor: &dyn ReadAt, varints: Varints) -> Result<Range<u64>> {
        let start = self.len;
        let size = tensor.size()?;
        let mut out = BufWriter::new(&*self.file);
        // A multiple of all widths.
        let mut buffer = vec![0; 64 << 10];
        let mut bytes = Vec::new();
        let mut position = 0;
        while position < size {
            let left = usize::try_from(size - position).unwrap_or(usize::MAX);
            let step = buffer.len().min(left);
            tensor.read_exact_at(position, &mut buffer[..step])?;
            bytes.clear();
            for element in buffer[..step].chunks(varints.width) {
                put_varint(&mut bytes, varints.number(element));
            }
            out.write_all(&bytes)?;
            self.len += bytes.len() as u64;
            position += step as u64;
        }
        out.flush()?;
        Ok(start..self.len)
    }
}
