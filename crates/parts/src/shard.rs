//! Shards of a checkpoint, for hosts that each hold a part of a message and write this part
//! themselves.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use highway::{HighwayHash, HighwayHasher, Key};
use prost::Message;
use record_file::{Compression, WriterOptions};

use super::identity::absolute;
use super::report::{PartReport, of_all_parts};
use super::splitting::{CommittedSplit, check_count, place_main};
use super::store::{self, FolderStore, PartStore};
use crate::proto::SplitReport;
use crate::proto::report::Result as Outcome;
use proto_splitter_core::atomic::{AtomicFile, MadeFrom, at_target};
use proto_splitter_core::container::{ChunkKind, Limits, Profile, Trailer, TrailerUse};
use proto_splitter_core::part_work::describe_type;
use proto_splitter_core::part_work::written_through;
use proto_splitter_core::part_work::{ChunkFile, extended_trailer, write_base};
use proto_splitter_core::path::FieldPath;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::proto::chunk_info::Type;
use proto_splitter_core::proto::chunk_metadata::ExternalFile;
use proto_splitter_core::proto::{ChunkInfo, ChunkMetadata, ChunkedField, ChunkedMessage};
use proto_splitter_core::split::{Source, SplitOptions};
use proto_splitter_core::{Error, ErrorKind, Result};

/// The part of a message that one host holds, and writes to a separate file.
///
/// All hosts agree on a prefix, on an [id](ShardOptions::id) and on a number for each host. Each
/// host writes its chunks to a file, which yields a report. Finally, any host combines the reports
/// into one message with [`commit_shards`].
///
/// ```
/// use proto_splitter_core::Result;
/// use proto_splitter_core::merge::{ReadOptions, Merger};
/// use proto_splitter_parts::{Shard, ShardOptions, ShardWriter, commit_shards};
/// use proto_splitter_core::prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
/// use proto_splitter_core::split::{Source, SplitOptions};
///
/// /// Every second layer of a model.
/// struct Layers {
///     first: usize,
/// }
///
/// impl Shard for Layers {
///     fn write_chunks(&self, writer: &mut ShardWriter) -> Result<()> {
///         for layer in (self.first..6).step_by(2) {
///             let weights = layer.to_string().repeat(1000);
///             // 4 is `message_type`, 1 its `name`.
///             writer.value(&format!("4[{layer}].1").parse()?, weights.as_bytes())?;
///         }
///         Ok(())
///     }
/// }
///
/// let folder = tempfile::tempdir()?;
/// let prefix = folder.path().join("checkpoint");
/// let options = ShardOptions::new().id("step 100");
/// let reports = [0, 1].map(|host| Layers { first: host }.write(&prefix, host, &options).unwrap());
///
/// // The rest of the message, without the weights.
/// let rest = FileDescriptorProto { message_type: vec![DescriptorProto::default(); 6], ..Default::default() };
/// let done = commit_shards(&Source::from(&rest), &prefix, &reports, &options, &SplitOptions::new())?;
/// assert_eq!((done.files.len(), done.chunks), (2, 7));
///
/// let merger = Merger::new().options(ReadOptions::for_message::<FileDescriptorProto>());
/// let whole: FileDescriptorProto = merger.read(&prefix)?;
/// assert_eq!(whole.message_type[5].name(), "5".repeat(1000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Shard {
    /// Writes to `writer` the chunks that this host holds.
    ///
    /// # Errors
    ///
    /// Any error from the writer.
    fn write_chunks(&self, writer: &mut ShardWriter) -> Result<()>;

    /// Writes the file of the host with this number, counted from 0. If a host writes its file more
    /// than once, files with different content don't replace each other.
    ///
    /// # Errors
    ///
    /// The errors of [`write_chunks`](Self::write_chunks) and [`ShardWriter::finish`].
    fn write(
        &self,
        prefix: impl AsRef<Path>,
        number: usize,
        options: &ShardOptions,
    ) -> Result<PartReport>
    where
        Self: Sized,
    {
        let mut writer = ShardWriter::create(prefix, number, options)?;
        self.write_chunks(&mut writer)?;
        writer.finish()
    }
}

/// Options for writing shards. All hosts must use the same options.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    id: String,
    compression: Compression,
    progress: Progress,
}

impl Default for ShardOptions {
    fn default() -> Self {
        ShardOptions::new()
    }
}

impl ShardOptions {
    /// Creates the default options. Each setter documents the default of its option.
    #[must_use]
    pub const fn new() -> Self {
        ShardOptions {
            id: String::new(),
            compression: Compression::None,
            progress: Progress::none(),
        }
    }

    /// Sets an id, such as the number of a training step, that distinguishes this message from
    /// other messages that are written to the same prefix. Reports with a different id are refused.
    /// Default: empty.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    proto_splitter_core::options! {
        /// Sets the compression of the chunks. Default: none, since weights are hardly
        /// compressible.
        const compression, get_compression: Compression;

        /// Sets the progress listener, which can also cancel writing. Default: none.
        ref progress, get_progress: Progress;
    }

    /// Returns the id that distinguishes this message from other messages that are written to the
    /// same prefix.
    pub fn get_id(&self) -> &str {
        &self.id
    }
}

/// A writer for the file with the chunks that one host holds.
#[derive(Debug)]
pub struct ShardWriter {
    file: AtomicFile,
    chunks: ChunkFile,
    store: FolderStore,
    main: PathBuf,
    number: usize,
    options: ShardOptions,
    plan_id: [u8; 16],
    paths: Vec<FieldPath>,
}

impl ShardWriter {
    /// Begins the file of the host with this number, counted from 0. The file is next to
    /// `PREFIX.cpb`.
    ///
    /// # Errors
    ///
    /// The errors of [`PartStore::begin`]; [`ErrorKind::InvalidConfig`] if the prefix isn't
    /// Unicode.
    pub fn create(
        prefix: impl AsRef<Path>,
        number: usize,
        options: &ShardOptions,
    ) -> Result<ShardWriter> {
        let main = main_of(prefix.as_ref())?;
        let store = FolderStore::beside(&main);
        // The chunks come from the caller, so there is no input file whose permissions the output
        // could have.
        let file = store.begin(&MadeFrom::Nothing)?;
        let chunks = ChunkFile::begin(&file, WriterOptions::new())
            .map_err(|error| at_target(error, &main))?;
        Ok(ShardWriter {
            file,
            chunks,
            store,
            plan_id: plan_id(&main, options)?,
            main,
            number,
            options: options.clone(),
            paths: Vec::new(),
        })
    }

    /// Writes the value of a bytes or string field as a chunk. If one host writes several values at
    /// the same path, they are concatenated.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if writing fails; [`ErrorKind::Cancelled`].
    pub fn value(&mut self, path: &FieldPath, bytes: &[u8]) -> Result<()> {
        self.add(ChunkKind::Bytes, path, &mut { bytes }, bytes.len() as u64)
    }

    /// Writes a serialized message as a chunk, to be merged into the message at `path`.
    ///
    /// # Errors
    ///
    /// The errors of [`value`](Self::value).
    pub fn message(&mut self, path: &FieldPath, bytes: &[u8]) -> Result<()> {
        self.add(ChunkKind::Message, path, &mut { bytes }, bytes.len() as u64)
    }

    /// Writes `size` bytes of `content` as a chunk. The bytes are never all in memory at the same
    /// time.
    ///
    /// # Errors
    ///
    /// The errors of [`value`](Self::value); [`ErrorKind::Io`] if `content` has fewer bytes.
    pub fn add(
        &mut self,
        kind: ChunkKind,
        path: &FieldPath,
        content: &mut dyn Read,
        size: u64,
    ) -> Result<()> {
        let meter = self.options.progress.meter(size);
        let mut content = meter.read(content.take(size));
        let record = self
            .chunks
            .add(&mut content, size, self.options.compression)
            .map_err(|error| at_target(error, &self.main))?;
        let kind = match kind {
            ChunkKind::Message => Type::Message,
            ChunkKind::Bytes => Type::Bytes,
        };
        self.chunks.note(ChunkInfo {
            r#type: kind.into(),
            size,
            offset: record.position.numeric(),
            crc32c: Some(record.crc32c),
            file: 0,
        });
        self.paths.push(path.clone());
        Ok(())
    }

    /// Completes the file, and gives it its final name, which depends on the file's content.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if writing fails; [`ErrorKind::Cancelled`].
    pub fn finish(self) -> Result<PartReport> {
        let infos = self.chunks.chunks().iter();
        let infos = infos.map(|info| info.encode_to_vec().into()).collect();
        let fields = self.paths.iter().map(|path| field(path).encode_to_vec());
        let done = self
            .chunks
            .complete(self.file, &self.main, self.number)
            .map_err(|error| at_target(error, &self.main))?;
        self.options.progress.check()?;
        self.store.keep(done.file, &done.named.path)?;
        let report = SplitReport {
            file: done.named.path,
            size: done.named.size,
            trailer_crc32c: done.named.trailer_crc32c,
            infos,
            fields: fields.map(Into::into).collect(),
            ..Default::default()
        };
        Ok(PartReport::new(
            &self.plan_id,
            self.number,
            Outcome::Split(report),
        ))
    }
}

/// Combines the files of all hosts into one message: writes `PREFIX.cpb`, which refers to these
/// files.
///
/// `rest` is the part of the message that no host wrote. The chunks of the hosts are merged into
/// `rest` in the order of the hosts' numbers, as TensorFlow's Merger does: a value replaces an
/// existing value, and a message is merged into an existing message. `PREFIX.cpb` embeds the
/// schema, which readers need to merge the chunks. Of `options`, only
/// [`force`](SplitOptions::force), the compression, the size of the trailer, and cancellation have
/// an effect.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if a report is missing or isn't of these shards, or if two hosts
/// have written a value at the same path; [`ErrorKind::AlreadyExists`] if the target exists with other
/// content; [`ErrorKind::Io`] or [`ErrorKind::ChecksumMismatch`] if the file of a host is missing
/// or differs from its report; [`ErrorKind::LimitExceeded`] if `rest` is larger than a chunk may
/// be.
pub fn commit_shards(
    rest: &Source,
    prefix: impl AsRef<Path>,
    reports: &[PartReport],
    shards: &ShardOptions,
    options: &SplitOptions,
) -> Result<CommittedSplit> {
    let main = main_of(prefix.as_ref())?;
    let options = options.clone().profile(Profile::Extended);
    let count = reports.iter().map(|report| report.part() + 1).max();
    let count = count.unwrap_or_default();
    check_count(count)?;
    let outcomes = of_all_parts(reports, &plan_id(&main, shards)?, count)?;
    let mut all = Together::default();
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let added = all.add(number, outcome);
        added.map_err(|error| error.context(format_args!("host {number}")))?;
    }
    let store = FolderStore::beside(&main);
    for file in &all.files {
        options.get_progress().check()?;
        store.check(file)?;
    }
    let files = all.files.clone();
    let counts = all.counts.clone();
    let trailer = extended_trailer(all.into_trailer(rest));
    let chunks = trailer.chunks.len();
    let limits = Limits::new().max_files(files.len());
    Trailer::from_metadata(trailer.clone(), TrailerUse::Whole, &limits)?;
    let made_from = rest.made_from();
    let file = AtomicFile::create(&main, &made_from, true)?;
    let described = describe_type(rest.descriptor(), true);
    write_base(&file, &described, trailer, rest, &options)
        .map_err(|error| at_target(error, &main))?;
    let done = CommittedSplit {
        chunks,
        source_size: rest.size(),
        ..CommittedSplit::over(&main, &files, &counts)
    };
    place_main(file, &files, done, (&store, &made_from), &options)
}

/// The content of all reports, in the order of the hosts' numbers.
#[derive(Default)]
struct Together {
    files: Vec<ExternalFile>,
    counts: Vec<usize>,
    /// Trailer entries of the hosts' chunks. The entry for `rest` will precede them.
    infos: Vec<ChunkInfo>,
    paths: Vec<FieldPath>,
    /// Number of the host that has written the value at each path.
    values: BTreeMap<FieldPath, usize>,
}

impl Together {
    fn add(&mut self, number: usize, outcome: &Outcome) -> Result<()> {
        let invalid = |why: &str| {
            let message = format!("its report {why}");
            Error::new(ErrorKind::InvalidMessage, message)
        };
        let Outcome::Split(done) = outcome else {
            return Err(invalid("doesn't describe a file"));
        };
        if Path::new(&done.file).file_name() != Some(done.file.as_ref()) {
            return Err(invalid("names a file in another folder"));
        }
        if done.infos.len() != done.fields.len() {
            return Err(invalid("has chunks without paths"));
        }
        for (info, field) in done.infos.iter().zip(&done.fields) {
            let unreadable = |_| invalid("has a chunk that can't be read");
            let info = ChunkInfo::decode(info.clone()).map_err(unreadable)?;
            let field = ChunkedField::decode(field.clone()).map_err(unreadable)?;
            let path = FieldPath::from_tags(&field.field_tag)?;
            if info.r#type == i32::from(Type::Bytes) {
                let other = *self.values.entry(path.clone()).or_insert(number);
                if other != number {
                    let message = format!("it has written a value that host {other} wrote, too");
                    let error = Error::new(ErrorKind::InvalidConfig, message);
                    return Err(error.at_path(path.display(None)));
                }
            }
            let file = u32::try_from(number + 1).unwrap_or(u32::MAX);
            self.infos.push(ChunkInfo { file, ..info });
            self.paths.push(path);
        }
        self.counts.push(done.infos.len());
        self.files.push(ExternalFile {
            path: done.file.clone(),
            size: done.size,
            trailer_crc32c: done.trailer_crc32c,
        });
        Ok(())
    }

    /// Returns the trailer. The position of the chunk with `rest` is not set yet.
    fn into_trailer(self, rest: &Source) -> ChunkMetadata {
        let base = ChunkInfo {
            r#type: Type::Message.into(),
            size: rest.size(),
            ..Default::default()
        };
        let mut places: Vec<(&FieldPath, u64)> = self.paths.iter().zip(1..).collect();
        places.sort();
        let fields = places.into_iter().map(|(path, index)| ChunkedField {
            message: Some(ChunkedMessage {
                chunk_index: Some(index),
                chunked_fields: Vec::new(),
            }),
            ..field(path)
        });
        let message = ChunkedMessage {
            chunk_index: Some(0),
            chunked_fields: fields.collect(),
        };
        ChunkMetadata {
            message: Some(message),
            chunks: std::iter::once(base).chain(self.infos).collect(),
            message_type: rest.descriptor().full_name().to_owned(),
            files: self.files,
            ..Default::default()
        }
    }
}

fn field(path: &FieldPath) -> ChunkedField {
    ChunkedField {
        field_tag: path.to_tags(),
        ..Default::default()
    }
}

/// Returns the path of the main file, `PREFIX.cpb`.
fn main_of(prefix: &Path) -> Result<PathBuf> {
    Ok(written_through(&store::main_of(prefix))?)
}

/// Returns the id that all reports on this message must have.
fn plan_id(main: &Path, options: &ShardOptions) -> Result<[u8; 16]> {
    let folder = absolute(proto_splitter_core::part_work::folder(main))?;
    let name = main.file_name().unwrap_or_default().to_string_lossy();
    let text = format!("shards\n{folder}\n{name}\n{}", options.id);
    let [high, low] = HighwayHasher::new(Key::default()).hash128(text.as_bytes());
    Ok((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}
