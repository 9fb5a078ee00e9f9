//! How a message is split and written.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use super::file_sizes::largest_chunk;
use record_file::WriterOptions;

use crate::container::{LARGEST_DEPTH_LIMIT, Profile};
use crate::progress::Progress;
use crate::split::compression::{ChunkCompression, DEFAULT_CHUNK_COMPRESSION};
use crate::{Error, ErrorKind, Result};

/// The default of [`SplitOptions::max_chunk_size`]: 1 GiB, which every protobuf implementation
/// reads.
pub const DEFAULT_MAX_CHUNK_SIZE: u64 = 1 << 30;

/// The most that [`SplitOptions::max_chunk_size`] can be: 2,147,483,147 bytes, the largest message
/// that TensorFlow's Merger takes.
pub const LARGEST_MAX_CHUNK_SIZE: u64 = 2_147_483_147;

/// The default of [`SplitOptions::value_chunk_size`]: 1 MiB.
pub const DEFAULT_VALUE_CHUNK_SIZE: u64 = 1 << 20;

/// The default of [`SplitOptions::max_slice_size`]: 4 MiB, which take a hundredth of a second or two
/// to decompress.
pub const DEFAULT_MAX_SLICE_SIZE: u64 = 4 << 20;

/// The least that [`SplitOptions::max_file_size`] can be: 4 KiB.
pub const LEAST_MAX_FILE_SIZE: u64 = 4 << 10;

/// The default of [`SplitOptions::depth_limit`]: protobuf's own, 100.
pub const DEFAULT_DEPTH_LIMIT: u32 = 100;

/// Fails if no file can be held to so few bytes.
pub(crate) fn check_max_file_size(bytes: u64) -> Result<()> {
    if bytes < LEAST_MAX_FILE_SIZE {
        let message = format!(
            "a maximum file size of {bytes} bytes: it must be at least {LEAST_MAX_FILE_SIZE}"
        );
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    Ok(())
}

/// How a message is split and written.
///
/// Each field is read by its name and set by the method of the same name. Invalid values are
/// reported as [`InvalidConfig`](ErrorKind::InvalidConfig) when the options are used.
///
/// ```
/// use proto_splitter_core::split::{DEFAULT_MAX_CHUNK_SIZE, SplitOptions};
/// const OPTIONS: SplitOptions = SplitOptions::new().max_chunk_size(64 << 20);
/// assert_eq!(OPTIONS.max_chunk_size, 64 << 20);
/// assert_eq!(SplitOptions::default().max_chunk_size, DEFAULT_MAX_CHUNK_SIZE);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SplitOptions {
    /// The most bytes a MESSAGE chunk may have.
    pub max_chunk_size: u64,
    /// The size from which a bytes or string value becomes a chunk of its own.
    pub value_chunk_size: Option<u64>,
    /// How large the slices of a repeated field are.
    pub max_slice_size: u64,
    /// The most bytes a BYTES chunk may have.
    pub max_value_size: Option<u64>,
    /// Which readers the file is for.
    pub profile: Profile,
    /// The most bytes that a file may have.
    pub max_file_size: Option<u64>,
    /// How many messages deep the split looks.
    pub depth_limit: u32,
    /// How the records are compressed.
    pub compression: ChunkCompression,
    /// The options of the writer of records, if they say more than a compression.
    pub records: Option<WriterOptions>,
    /// Whether files that are in the way are replaced.
    pub force: bool,
    /// How many threads work; as many as there are cores if `None`.
    pub threads: Option<NonZeroUsize>,
    /// Who is told how far it is.
    pub progress: Progress,
    /// Whether the file brings along the schema of its message.
    pub embed_schema: bool,
    /// Whether a message in which nothing has to be cut is written as a file of chunks.
    pub always_chunked: bool,
    /// Whether a split fails if a merge would not be byte-exact.
    pub require_byte_exact: bool,
}

impl Default for SplitOptions {
    fn default() -> Self {
        SplitOptions::new()
    }
}

impl SplitOptions {
    /// The defaults, which the setters name in parentheses.
    #[must_use]
    pub const fn new() -> Self {
        SplitOptions {
            max_chunk_size: DEFAULT_MAX_CHUNK_SIZE,
            value_chunk_size: Some(DEFAULT_VALUE_CHUNK_SIZE),
            max_slice_size: DEFAULT_MAX_SLICE_SIZE,
            max_value_size: None,
            profile: Profile::TensorFlow,
            max_file_size: None,
            depth_limit: DEFAULT_DEPTH_LIMIT,
            compression: DEFAULT_CHUNK_COMPRESSION,
            records: None,
            force: false,
            threads: None,
            progress: Progress::none(),
            embed_schema: false,
            always_chunked: false,
            require_byte_exact: false,
        }
    }

    /// The most bytes a MESSAGE chunk may have, from 1 to [`LARGEST_MAX_CHUNK_SIZE`]; nothing is
    /// cut out of a message that has no more ([`DEFAULT_MAX_CHUNK_SIZE`]).
    #[must_use]
    pub const fn max_chunk_size(mut self, bytes: u64) -> Self {
        self.max_chunk_size = bytes;
        self
    }

    /// Once a message must be cut, every bytes or string value from this size up becomes a chunk of
    /// its own ([`DEFAULT_VALUE_CHUNK_SIZE`]); `None`: only those that have to.
    #[must_use]
    pub const fn value_chunk_size(mut self, bytes: Option<u64>) -> Self {
        self.value_chunk_size = bytes;
        self
    }

    /// How large the slices of a repeated field are, at least 1 byte, if it has to be sliced
    /// ([`DEFAULT_MAX_SLICE_SIZE`]). More than the maximum chunk size counts as that. Who reads one
    /// element reads its slice; an element that is larger has a slice to itself. Slices of packed
    /// numbers have the maximum chunk size.
    #[must_use]
    pub const fn max_slice_size(mut self, bytes: u64) -> Self {
        self.max_slice_size = bytes;
        self
    }

    /// The most bytes a BYTES chunk may have, at least 1. In TensorFlow's profile a larger value is
    /// an error; `None`, the default: it may have any size. In the extended profile it is cut
    /// into several; `None`: at the maximum chunk size.
    #[must_use]
    pub const fn max_value_size(mut self, bytes: Option<u64>) -> Self {
        self.max_value_size = bytes;
        self
    }

    /// Which readers the file is for ([TensorFlow's](Profile::TensorFlow)).
    #[must_use]
    pub const fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// The most bytes that a file may have, at least [`LEAST_MAX_FILE_SIZE`] (any number). What
    /// doesn't fit in one goes to several, all beside the main file `PREFIX.cpb`:
    /// `PREFIX.00001-89abcdef.cpb` and so on, numbered and named by what is in them. Only in
    /// the extended profile.
    ///
    /// No chunk is larger than has room in a file.
    #[must_use]
    pub const fn max_file_size(mut self, bytes: Option<u64>) -> Self {
        self.max_file_size = bytes;
        self
    }

    /// How many messages deep the split looks for something to cut ([`DEFAULT_DEPTH_LIMIT`]). More
    /// than [`LARGEST_DEPTH_LIMIT`] counts as that. What lies deeper is left whole. Readers
    /// follow paths of more than 100 steps only if their
    /// [`max_message_depth`](crate::merge::Limits::max_message_depth) allows it.
    #[must_use]
    pub const fn depth_limit(mut self, messages: u32) -> Self {
        self.depth_limit = messages;
        self
    }

    /// How the records are compressed ([each as it pays](ChunkCompression::Auto)).
    #[must_use]
    pub fn compression(mut self, compression: impl Into<ChunkCompression>) -> Self {
        self.compression = compression.into();
        self
    }

    /// How the records are written, as Riegeli's option strings say it: their compression, and whether
    /// chunks that are messages are transposed, field by field, which makes them smaller (no).
    ///
    /// Every chunk is a record by itself. If they are transposed, one is in memory as a whole, several
    /// times, and one thread writes. Paddings and numbers of threads have no effect.
    ///
    /// ```
    /// use prost_reflect::prost_types::FileDescriptorProto;
    /// use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
    ///
    /// let file = FileDescriptorProto { name: Some("n".repeat(5000)), ..Default::default() };
    /// let options = SplitOptions::new().max_chunk_size(1000).records("transpose,zstd:5".parse()?);
    /// assert!(SizeSplitter.write_to_with(&file, &mut Vec::new(), &options)?.output_size < 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn records(mut self, options: WriterOptions) -> Self {
        self.compression = options.codec().into();
        self.records = (!options.has_plain_chunks()).then_some(options);
        self
    }

    /// Whether files that are in the way are replaced (no).
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Whether the file brings along the schema of its message (no): then it can be read by names
    /// and be shown by programs that don't know the type. See
    /// [`ChunkedFile::descriptor`](crate::container::ChunkedFile::descriptor).
    #[must_use]
    pub const fn embed_schema(mut self, embed: bool) -> Self {
        self.embed_schema = embed;
        self
    }

    /// Whether a message in which nothing has to be cut is written as a file of chunks, a `.cpb`
    /// (no: as it is, a `.pb`). Its own repeated fields are put into [slices](Self::max_slice_size)
    /// then, if they are longer than one; all else is one chunk. A `.pb` beside it is not in the way
    /// then, and stays.
    #[must_use]
    pub const fn always_chunked(mut self, always: bool) -> Self {
        self.always_chunked = always;
        self
    }

    /// Whether a split fails, with [`ErrorKind::Uncuttable`], if a merge would give an equal message
    /// but not the same bytes (no). See [`SplitPlan::byte_exact`](crate::split::SplitPlan::byte_exact).
    #[must_use]
    pub const fn require_byte_exact(mut self, require: bool) -> Self {
        self.require_byte_exact = require;
        self
    }

    /// How many threads read, compress and write chunks (as many as there are cores). The file is
    /// the same.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<NonZeroUsize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Who is told how far it is, and who may stop it (nobody).
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Fails if a split can't go by these, with [`ErrorKind::InvalidConfig`].
    pub(crate) fn validate(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::new(ErrorKind::InvalidConfig, message));
        let SplitOptions {
            max_chunk_size,
            max_slice_size,
            max_value_size,
            max_file_size,
            ..
        } = *self;
        if !(1..=LARGEST_MAX_CHUNK_SIZE).contains(&max_chunk_size) {
            return invalid(format!(
                "a maximum chunk size of {max_chunk_size} bytes: it must be 1 to {LARGEST_MAX_CHUNK_SIZE}"
            ));
        }
        if max_slice_size == 0 {
            return invalid("a maximum slice size of 0 bytes".into());
        }
        if max_value_size == Some(0) {
            return invalid("a maximum value size of 0 bytes".into());
        }
        if max_file_size.is_some() && self.profile == Profile::TensorFlow {
            return invalid(
                "a maximum file size: several files are only for the profile `extended`".into(),
            );
        }
        if max_file_size.is_some() && self.records.is_some() {
            return invalid("a maximum file size: records with these options are one file".into());
        }
        max_file_size.map_or(Ok(()), check_max_file_size)?;
        self.compression.validate()
    }

    /// What could be done about a value that can't be cut.
    pub(crate) fn hint(&self) -> &'static str {
        match self.profile {
            Profile::TensorFlow => "; the profile `extended` may cut it",
            Profile::Extended => "",
        }
    }

    /// The most bytes that a MESSAGE chunk gets: no more than has room in a file.
    #[must_use]
    pub fn effective_max_chunk_size(&self) -> u64 {
        let most = self.max_file_size.map_or(u64::MAX, largest_chunk);
        self.max_chunk_size.min(most)
    }

    /// How large the slices of a repeated field get: no larger than a MESSAGE chunk.
    #[must_use]
    pub fn effective_max_slice_size(&self) -> u64 {
        self.max_slice_size.min(self.effective_max_chunk_size())
    }

    /// The most bytes that a BYTES chunk gets; `None`: any number.
    #[must_use]
    pub fn effective_max_value_size(&self) -> Option<u64> {
        match self.profile {
            Profile::TensorFlow => self.max_value_size,
            Profile::Extended => {
                let max = self.effective_max_chunk_size();
                Some(self.max_value_size.map_or(max, |value| value.min(max)))
            }
        }
    }

    /// How many messages deep the split looks: no deeper than [`LARGEST_DEPTH_LIMIT`].
    #[must_use]
    pub fn effective_depth_limit(&self) -> u32 {
        self.depth_limit.min(LARGEST_DEPTH_LIMIT)
    }
}

/// Where the size engine must not cut, although it could.
///
/// ```
/// use proto_splitter_core::split::{ComposableSplitter, SplitExt, SizeRules, SizeSplitter, SplitContext, SplitOptions};
/// use proto_splitter_core::Result;
/// # use prost_reflect::prost_types::{FileDescriptorProto, FileOptions};
///
/// /// Cuts by size, but never at a `FileOptions` itself.
/// struct NotOptions;
///
/// impl ComposableSplitter for NotOptions {
///     fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
///         cx.fit_with(&SizeRules::new().keep_whole("google.protobuf.FileOptions"))
///     }
/// }
///
/// # let text = |len| Some("x".repeat(len));
/// # let options = FileOptions { java_package: text(600), go_package: text(300), ..Default::default() };
/// # let file = FileDescriptorProto { name: text(300), options: Some(options), ..Default::default() };
/// let options = SplitOptions::new().max_chunk_size(1000);
/// let plan = SizeSplitter.plan(&file, &options)?;
/// assert_eq!(plan.chunks()[1].path().display(Some(plan.descriptor())), "options");
/// let plan = NotOptions.plan(&file, &options)?;
/// assert_eq!(plan.chunks()[1].path().display(Some(plan.descriptor())), "name");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SizeRules {
    kept_whole: BTreeSet<String>,
}

impl SizeRules {
    /// No rules: everything that can be cut may be.
    #[must_use]
    pub const fn new() -> Self {
        SizeRules {
            kept_whole: BTreeSet::new(),
        }
    }

    /// Never puts a chunk at a message of this type, neither all of it nor a slice of its fields;
    /// cuts go below it.
    #[must_use]
    pub fn keep_whole(mut self, full_name: impl Into<String>) -> Self {
        self.kept_whole.insert(full_name.into());
        self
    }

    /// Adds the rules of others.
    pub(crate) fn extend(&mut self, others: SizeRules) {
        self.kept_whole.extend(others.kept_whole);
    }

    pub(crate) fn keeps_whole(&self, full_name: &str) -> bool {
        self.kept_whole.contains(full_name)
    }
}
