//! The record of the original model. It is stored next to the externalized model, and is needed to
//! restore the original.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use prost::Message;
use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::checksum::{combine, crc32c};
use proto_splitter_core::spans::crc_of_range;
use proto_splitter_core::wire::WireCursor;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_tensor_bundle::{data_path, index_path};
use record_file::ReadAt;

use crate::constant::{Constant, Encoding};
use crate::content::Contents;
use crate::scan::{MAX_NODES, MAX_REST};

/// Path of the record of the original model, relative to the folder of the externalized model.
pub const RECORD_FILE: &str = "assets.extra/proto_splitter_original.pb";

/// Path of the folder with mapped constants, in the folder of an externalized model.
pub(crate) const MAPPED_FOLDER: &str = "assets.extra/proto_splitter_mapped";

/// Maximum size of a record, in bytes. A record contains the model without its constants, and a
/// name for each constant.
const MAX_RECORD: u64 = MAX_REST * 2;

/// Version of the records that this crate writes.
const VERSION: u32 = 2;

/// Version of records without checksums, which this crate also reads.
const WITHOUT_CHECKSUMS: u32 = 1;

/// Name of the externalized model's file.
const MODEL_FILE: &str = "saved_model.pb";

/// Number of the field [`Record::pieces`].
const PIECES: u32 = 4;

/// Encoded tag of the field [`Record::check`].
const CHECK_TAG: u8 = 15 << 3 | 5;

/// Size of the encoded field [`Record::check`], which is the last one in a record, in bytes.
const CHECK_LEN: usize = 5;

/// The record, as a protobuf message. The original `saved_model.pb` is the concatenation of the
/// pieces.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Record {
    #[prost(uint32, tag = "1")]
    version: u32,
    /// Size of the original, in bytes.
    #[prost(uint64, tag = "2")]
    pub(crate) size: u64,
    /// BLAKE3 hash of the externalized `saved_model.pb` to which the record belongs.
    #[prost(bytes = "vec", tag = "3")]
    model: Vec<u8>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) pieces: Vec<Piece>,
    /// True if the constants are in separate files, rather than in a bundle.
    #[prost(bool, tag = "5")]
    pub(crate) mapped: bool,
    /// crc32c of the original; `None` in a record of version 1.
    #[prost(fixed32, optional, tag = "6")]
    pub(crate) crc32c: Option<u32>,
    /// True if the original also reads the bundle, because the original is an externalized model
    /// that was saved again.
    #[prost(bool, tag = "7")]
    pub(crate) keeps_bundle: bool,
    /// Size of the externalized `saved_model.pb`, in bytes; 0 if it is unknown.
    #[prost(uint64, tag = "8")]
    model_size: u64,
    /// crc32c of all bytes of the record before this field, which is the last one; `None` in a
    /// record of version 1.
    #[prost(fixed32, optional, tag = "15")]
    check: Option<u32>,
}

/// A byte range of the original: literal bytes, followed by a constant.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Piece {
    /// Literal bytes of the original, which precede the constant.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) literal: Vec<u8>,
    /// Name of the constant's content, which is a tensor in the bundle or a separate file. The name
    /// is empty in the last piece, which has no constant.
    #[prost(string, tag = "2")]
    pub(crate) content: String,
    /// Size of a decoded element in bytes, if the original model encodes the constant as varints;
    /// 0 otherwise.
    #[prost(uint32, tag = "3")]
    pub(crate) width: u32,
    /// True if negative elements are sign-extended to 64 bits before they are encoded as varints.
    #[prost(bool, tag = "4")]
    pub(crate) signed: bool,
    /// crc32c of the constant as the original encodes it; `None` in a record of version 1.
    #[prost(fixed32, optional, tag = "5")]
    pub(crate) crc32c: Option<u32>,
}

impl Record {
    /// Creates the record of an original model of `size` bytes. `crcs` has the crc32c of each item
    /// of `contents.all`.
    pub(crate) fn new(
        data: &dyn ReadAt,
        size: u64,
        constants: &[Constant],
        contents: &Contents,
        crcs: &[u32],
    ) -> Result<Record> {
        let mut pieces = Vec::with_capacity(constants.len() + 1);
        let (mut position, mut whole) = (0, 0);
        let literal = |from: u64, to: u64, whole: &mut u32| -> Result<Vec<u8>> {
            // The scan has checked that the model without its constants is small.
            let len = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
            let mut bytes = vec![0; len];
            data.read_exact_at(from, &mut bytes)?;
            *whole = combine(*whole, crc32c(&bytes), bytes.len() as u64);
            Ok(bytes)
        };
        let mut buffer = Vec::new();
        let mut crc_of = |range| crc_of_range(data, range, &mut buffer, |_| Ok(()));
        for constant in constants {
            let Some(&content) = contents.of.get(&constant.place) else {
                continue;
            };
            let span = constant.span.clone();
            let (width, signed, crc32c) = match constant.encoding {
                Encoding::Raw => (0, false, crcs[content]),
                Encoding::Varints(varints) => {
                    let width = u32::try_from(varints.width).unwrap_or(0);
                    (width, varints.signed, crc_of(span.clone())?)
                }
            };
            let literal = literal(position, span.start, &mut whole)?;
            whole = combine(whole, crc32c, span.end - span.start);
            pieces.push(Piece {
                literal,
                content: contents.all[content].key.clone(),
                width,
                signed,
                crc32c: Some(crc32c),
            });
            position = span.end;
        }
        pieces.push(Piece {
            literal: literal(position, size, &mut whole)?,
            ..Piece::default()
        });
        Ok(Record {
            version: VERSION,
            size,
            pieces,
            crc32c: Some(whole),
            ..Record::default()
        })
    }

    /// Marks the constants as stored in separate files, rather than in a bundle.
    pub(crate) fn mapped(self) -> Record {
        Record {
            mapped: true,
            ..self
        }
    }

    /// Returns the files that externalizing added to the model's folder, and that the original
    /// doesn't have.
    pub(crate) fn files(&self, folder: &Path) -> Vec<PathBuf> {
        if self.keeps_bundle && !self.mapped {
            return vec![folder.join(RECORD_FILE)];
        }
        self.sources(folder)
    }

    /// Returns the files from which the original is read.
    pub(crate) fn sources(&self, folder: &Path) -> Vec<PathBuf> {
        let mut files = vec![folder.join(RECORD_FILE)];
        if self.mapped {
            files.extend(self.mapped_files(folder));
        } else {
            files.extend(bundle_files(folder));
        }
        files
    }

    /// Returns the paths of the files with the constants, for a model that maps its constants.
    pub(crate) fn mapped_files(&self, folder: &Path) -> Vec<PathBuf> {
        let mapped = folder.join(MAPPED_FOLDER);
        let names = self.contents().into_iter();
        names.map(|name| mapped.join(name)).collect()
    }

    /// Writes the record to the folder of the externalized model. `model` is the content of the
    /// externalized `saved_model.pb`.
    pub(crate) fn write(mut self, folder: &Path, model: &[u8], made_from: &MadeFrom) -> Result<()> {
        self.model = blake3::hash(model).as_bytes().to_vec();
        self.model_size = model.len() as u64;
        let path = folder.join(RECORD_FILE);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| Error::from(error).in_file(parent))?;
        }
        self.check = None;
        let mut bytes = self.encode_to_vec();
        let check = crc32c(&bytes);
        bytes.push(CHECK_TAG);
        bytes.extend(check.to_le_bytes());
        let file = AtomicFile::create(&path, made_from, true)?;
        file.write(|sink| Ok(sink.write_all(&bytes)?))
    }

    /// Reads the record in the folder of a model; returns `None` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the record can't be read, is damaged, or doesn't belong to the `saved_model.pb` in
    /// the folder.
    pub(crate) fn read(folder: &Path) -> Result<Option<Record>> {
        let Some(record) = Record::load(folder)? else {
            return Ok(None);
        };
        if record.is_of(folder)? {
            return Ok(Some(record));
        }
        Err(changed(folder))
    }

    /// Fails if the model in this folder was damaged, that is, if its size is that of the
    /// externalized model but its content differs. A model with a different size isn't damaged, but
    /// was saved again.
    pub(crate) fn check_undamaged(&self, folder: &Path) -> Result<()> {
        let size = fs::metadata(folder.join(MODEL_FILE)).map(|metadata| metadata.len());
        let is_as_large = size.is_ok_and(|size| size == self.model_size);
        if is_as_large && !self.is_of(folder)? {
            return Err(changed(folder));
        }
        Ok(())
    }

    /// Reads the record in the folder of a model, even if the record belongs to another model;
    /// returns `None` if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the record can't be read or is damaged.
    pub(crate) fn load(folder: &Path) -> Result<Option<Record>> {
        let path = folder.join(RECORD_FILE);
        let at_path = |error: Error| error.in_file(&path);
        let size = match file_size(&path) {
            Ok(size) => size,
            Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => return Ok(None),
            Err(error) => return Err(at_path(error)),
        };
        let mut bytes = Vec::new();
        if size <= MAX_RECORD {
            let file = File::open(&path).map_err(|error| at_path(error.into()))?;
            // The file may have become larger.
            let read = file.take(MAX_RECORD + 1).read_to_end(&mut bytes);
            read.map_err(|error| at_path(error.into()))?;
        }
        let size = size.max(bytes.len() as u64);
        if size > MAX_RECORD {
            let message = format!("the record has {size} bytes, but at most {MAX_RECORD} are read");
            return Err(at_path(Error::new(ErrorKind::LimitExceeded, message)));
        }
        Record::checked(&bytes).map(Some).map_err(at_path)
    }

    /// Parses a record, and checks its version and checksums.
    fn checked(bytes: &[u8]) -> Result<Record> {
        check_count(bytes)?;
        let record = Record::decode(bytes)
            .map_err(|error| Error::new(ErrorKind::InvalidMessage, error.to_string()))?;
        match record.version {
            VERSION => check(bytes)?,
            WITHOUT_CHECKSUMS if record.check.or(record.crc32c).is_none() => {}
            WITHOUT_CHECKSUMS => {
                let message = "a record of version 1 has checksums, which came with version 2";
                return Err(Error::new(ErrorKind::InvalidMessage, message));
            }
            version => {
                let message = format!(
                    "the record has version {version}, but only {WITHOUT_CHECKSUMS} and {VERSION} are supported"
                );
                return Err(Error::new(ErrorKind::UnsupportedVersion, message));
            }
        }
        let has_crc = |piece: &Piece| piece.content.is_empty() || piece.crc32c.is_some();
        if record.has_checksums() && !(record.crc32c.is_some() && record.pieces.iter().all(has_crc))
        {
            let message = "the record lacks a checksum";
            return Err(Error::new(ErrorKind::InvalidMessage, message));
        }
        Ok(record)
    }

    /// Returns true if the record has checksums of the original and of itself. Records of version 1
    /// have none.
    pub(crate) fn has_checksums(&self) -> bool {
        self.version != WITHOUT_CHECKSUMS
    }

    /// Returns true if the record belongs to the `saved_model.pb` in this folder.
    pub(crate) fn is_of(&self, folder: &Path) -> Result<bool> {
        let model = folder.join(MODEL_FILE);
        let hashed = || -> Result<blake3::Hash> {
            file_size(&model)?;
            let mut hash = blake3::Hasher::new();
            io::copy(&mut File::open(&model)?, &mut hash)?;
            Ok(hash.finalize())
        };
        let hash = hashed().map_err(|error| error.in_file(&model))?;
        Ok(hash.as_bytes().as_slice() == self.model)
    }

    /// Returns true if the message of `size` bytes in `data` is the original to which the record
    /// belongs. In a record of version 1, only the size is known.
    pub(crate) fn has_original(&self, data: &dyn ReadAt, size: u64) -> Result<bool> {
        if self.size != size {
            return Ok(false);
        }
        match self.crc32c {
            Some(kept) => Ok(crc_of_range(data, 0..size, &mut Vec::new(), |_| Ok(()))? == kept),
            None => Ok(true),
        }
    }

    /// Returns the names of the contents of all constants, without duplicates.
    pub(crate) fn contents(&self) -> BTreeSet<&str> {
        let names = self.pieces.iter().map(|piece| piece.content.as_str());
        names.filter(|name| !name.is_empty()).collect()
    }
}

/// Returns the error for a model that was changed since its record was written.
fn changed(folder: &Path) -> Error {
    let model = folder.join(MODEL_FILE);
    let message = format!(
        "{} was changed since it was externalized: if this was intended, remove {RECORD_FILE}",
        model.display()
    );
    Error::new(ErrorKind::ChecksumMismatch, message)
}

/// Fails if a serialized record has more pieces than any model needs. An empty piece has two bytes in
/// a file, and many more in memory, so this is checked before the record is decoded.
fn check_count(bytes: &[u8]) -> Result<()> {
    // A model has at most a constant for each node, and the last piece has none.
    const MAX_PIECES: u64 = MAX_NODES + 1;
    let mut cursor = WireCursor::new(bytes);
    let mut count = 0;
    while let Some(field) = cursor.next()? {
        count += u64::from(field.number.0 == PIECES);
        if count > MAX_PIECES {
            let message = format!("the record has more than {MAX_PIECES} pieces");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
    }
    Ok(())
}

/// Fails unless the last field of a record is the crc32c of the bytes before it.
fn check(bytes: &[u8]) -> Result<()> {
    let mismatch = |message: String| Err(Error::new(ErrorKind::ChecksumMismatch, message));
    let stored = match bytes.split_last_chunk::<CHECK_LEN>() {
        Some((before, [CHECK_TAG, crc @ ..])) => Some((before, u32::from_le_bytes(*crc))),
        _ => None,
    };
    let Some((before, stored)) = stored else {
        return mismatch("the record doesn't end with its checksum".into());
    };
    let computed = crc32c(before);
    if computed == stored {
        return Ok(());
    }
    mismatch(format!(
        "the crc32c of {} bytes is 0x{computed:08x}, but 0x{stored:08x} is stored",
        before.len()
    ))
}

/// Returns the files of the bundle for the model in this folder.
pub(crate) fn bundle_files(folder: &Path) -> [PathBuf; 2] {
    let prefix = bundle_prefix(folder);
    [index_path(&prefix), data_path(&prefix, 0, 1)]
}

/// Returns the bundle prefix for the model in this folder.
pub(crate) fn bundle_prefix(folder: &Path) -> PathBuf {
    folder.join("assets").join(crate::rewrite::BUNDLE_NAME)
}

/// Returns the size of a file, in bytes. Fails unless it is a regular file, since opening a pipe
/// would wait for its other end, and reading a device might never end.
pub(crate) fn file_size(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    let message = "not a regular file";
    Err(Error::new(ErrorKind::InvalidMessage, message))
}
