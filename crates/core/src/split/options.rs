//! Options for splitting a message and writing it.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use super::file_sizes::largest_chunk;
use record_file::WriterOptions;

use crate::container::{LARGEST_DEPTH_LIMIT, Profile};
use crate::progress::Progress;
use crate::split::compression::{ChunkCompression, DEFAULT_CHUNK_COMPRESSION};
use crate::{Error, ErrorKind, Result};

/// Default of [`SplitOptions::max_chunk_size`]: 1 GiB, which every protobuf implementation can
/// read.
pub const DEFAULT_MAX_CHUNK_SIZE: u64 = 1 << 30;

/// Maximum of [`SplitOptions::max_chunk_size`]: 2,147,483,147 bytes, the largest message that
/// TensorFlow's Merger accepts.
pub const LARGEST_MAX_CHUNK_SIZE: u64 = 2_147_483_147;

/// Default of [`SplitOptions::value_chunk_size`]: 1 MiB.
pub const DEFAULT_VALUE_CHUNK_SIZE: u64 = 1 << 20;

/// Default of [`SplitOptions::max_slice_size`]: 4 MiB, which takes 10 or 20 milliseconds to
/// decompress.
pub const DEFAULT_MAX_SLICE_SIZE: u64 = 4 << 20;

/// Minimum of [`SplitOptions::max_file_size`]: 4 KiB.
pub const LEAST_MAX_FILE_SIZE: u64 = 4 << 10;

/// Default of [`SplitOptions::depth_limit`]: 100, the same as protobuf's own limit.
pub const DEFAULT_DEPTH_LIMIT: u32 = 100;

/// Fails if this maximum file size is too small.
pub(crate) fn check_max_file_size(bytes: u64) -> Result<()> {
    if bytes < LEAST_MAX_FILE_SIZE {
        let message = format!(
            "the maximum file size is {bytes} bytes, but must be at least {LEAST_MAX_FILE_SIZE}"
        );
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    Ok(())
}

/// Options for splitting a message and writing it.
///
/// Invalid values are reported as [`InvalidConfig`](ErrorKind::InvalidConfig) when the options are
/// used.
///
/// ```
/// use proto_splitter_core::split::{DEFAULT_MAX_CHUNK_SIZE, SplitOptions};
/// const OPTIONS: SplitOptions = SplitOptions::new().max_chunk_size(64 << 20);
/// assert_eq!(OPTIONS.get_max_chunk_size(), 64 << 20);
/// assert_eq!(SplitOptions::default().get_max_chunk_size(), DEFAULT_MAX_CHUNK_SIZE);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SplitOptions {
    pub(crate) max_chunk_size: u64,
    pub(crate) value_chunk_size: Option<u64>,
    pub(crate) max_slice_size: u64,
    pub(crate) max_value_size: Option<u64>,
    pub(crate) profile: Profile,
    pub(crate) max_file_size: Option<u64>,
    pub(crate) depth_limit: u32,
    pub(crate) compression: ChunkCompression,
    pub(crate) records: Option<WriterOptions>,
    pub(crate) force: bool,
    pub(crate) threads: Option<NonZeroUsize>,
    pub(crate) progress: Progress,
    pub(crate) embed_schema: bool,
    pub(crate) always_chunked: bool,
    pub(crate) require_byte_exact: bool,
    pub(crate) merkle_root: bool,
}

impl Default for SplitOptions {
    fn default() -> Self {
        SplitOptions::new()
    }
}

impl SplitOptions {
    /// Creates the default options.
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
            merkle_root: false,
        }
    }

    crate::options! {
        /// Sets the maximum size of a MESSAGE chunk, in bytes, from 1 to
        /// [`LARGEST_MAX_CHUNK_SIZE`]. A message of at most this size is not cut. Default:
        /// [`DEFAULT_MAX_CHUNK_SIZE`].
        const max_chunk_size, get_max_chunk_size: u64;

        /// Sets the minimum size, in bytes, of a bytes or string value that becomes a separate
        /// chunk when a message has to be cut. With `None`, a value becomes a chunk only if it has
        /// to be cut. Default: [`DEFAULT_VALUE_CHUNK_SIZE`].
        const value_chunk_size, get_value_chunk_size: Option<u64>;

        /// Sets the maximum size of a slice, in bytes, from 1 to the maximum chunk size. Slices are
        /// the chunks into which a repeated field is divided if it has to be cut. Default:
        /// [`DEFAULT_MAX_SLICE_SIZE`]. Reading one element reads its entire slice. An element
        /// larger than this maximum gets a separate slice. Slices of packed numbers have the
        /// maximum chunk size.
        const max_slice_size, get_max_slice_size: u64;

        /// Sets the maximum size of a BYTES chunk, in bytes, at least 1. Default: `None`. In
        /// TensorFlow's profile, a bytes or string value that exceeds the maximum is an error, and
        /// `None` allows any size. In the extended profile, such a value is cut into several
        /// chunks, and `None` means the maximum chunk size.
        const max_value_size, get_max_value_size: Option<u64>;

        /// Sets the profile, which determines which readers accept the file. Default:
        /// [`Profile::TensorFlow`].
        const profile, get_profile: Profile;

        /// Sets the maximum size of a file, in bytes, at least [`LEAST_MAX_FILE_SIZE`]. Default:
        /// `None`, unlimited. If one file isn't enough, further files are written next to the main
        /// file `PREFIX.cpb`: `PREFIX.00001-89abcdef.cpb` and so on, named by number and content.
        /// Requires the extended profile.
        ///
        /// Chunks are kept small enough to fit in a file.
        const max_file_size, get_max_file_size: Option<u64>;

        /// Sets the maximum nesting depth, in messages, to which a split searches for parts to cut,
        /// up to [`LARGEST_DEPTH_LIMIT`]. Default: [`DEFAULT_DEPTH_LIMIT`]. Messages at a greater
        /// depth are not cut. Readers accept paths of more than 100 steps only if their
        /// [`max_message_depth`](crate::merge::Limits::max_message_depth) allows this.
        const depth_limit, get_depth_limit: u32;

        /// Sets the compression for the records. Default: [`Auto`](ChunkCompression::Auto), which
        /// decides for each chunk.
        into compression, get_compression: ChunkCompression;

        /// Sets whether to overwrite existing files. Default: no.
        const force, get_force: bool;

        /// Sets whether to embed the message's schema in the file, so that programs that don't know
        /// the type can read fields by name, and display the message. Default: no. See
        /// [`ChunkedFile::descriptor`](crate::container::ChunkedFile::descriptor).
        const embed_schema, get_embed_schema: bool;

        /// Sets whether to write a message as a chunked file (`.cpb`) even if it need not be cut,
        /// instead of writing it unchanged (`.pb`). Default: no. If the message need not be cut,
        /// its top-level repeated fields become [slices](Self::max_slice_size) if they are larger
        /// than one slice, and all other fields are in one chunk. An existing `.pb` with the same
        /// prefix is kept.
        const always_chunked, get_always_chunked: bool;

        /// Sets whether a split fails, with [`ErrorKind::Uncuttable`], if a merge would produce an
        /// equal message but not the same bytes. Default: no. See
        /// [`SplitPlan::byte_exact`](crate::split::SplitPlan::byte_exact).
        const require_byte_exact, get_require_byte_exact: bool;

        /// Sets whether to store the hashes from which a
        /// [`MerkleRoot`](crate::container::MerkleRoot) is computed, 64 bytes for each chunk.
        /// Default: no. With the root, any part of the file can be checked for forgeries. A split
        /// in memory has no root, and neither does a message that is written unchanged; set
        /// [`always_chunked`](Self::always_chunked) to prevent the latter.
        ///
        /// Requires the feature `merkle`, which is on by default.
        const merkle_root, get_merkle_root: bool;

        /// Sets the number of threads that read, compress and write chunks. Default: `None`, the
        /// number of cores. The bytes of the file don't depend on this number.
        into threads, get_threads: Option<NonZeroUsize>;

        /// Sets progress reporting and cancellation. Default: none.
        ref progress, get_progress: Progress;
    }

    /// Sets the options for the record writer, as in Riegeli's option strings: the compression, and
    /// whether to transpose chunks that are messages. A transposed chunk is stored field by field,
    /// which makes it smaller; chunks of more than 1 GiB are never transposed, since readers would
    /// have to decode them as a whole. Default: not transposed.
    ///
    /// Every chunk is a separate record. Transposing keeps several copies of a whole chunk in
    /// memory, and uses one thread for writing. The padding and the number of threads in these
    /// options have no effect.
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
        self.compression = options.get_compression().into();
        self.records = (!options.has_plain_chunks()).then_some(options);
        self
    }

    /// Returns the options for the record writer; `None` if all options that affect the records,
    /// except the compression, have their default values.
    pub const fn get_records(&self) -> Option<&WriterOptions> {
        self.records.as_ref()
    }

    /// Fails with [`ErrorKind::InvalidConfig`] if the options are invalid.
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
                "the maximum chunk size is {max_chunk_size} bytes, but must be 1 to {LARGEST_MAX_CHUNK_SIZE}"
            ));
        }
        if max_slice_size == 0 {
            return invalid("the maximum slice size is 0 bytes, but must be at least 1".into());
        }
        if max_value_size == Some(0) {
            return invalid("the maximum value size is 0 bytes, but must be at least 1".into());
        }
        if max_file_size.is_some() && self.profile == Profile::TensorFlow {
            return invalid("a maximum file size requires the profile `extended`".into());
        }
        if max_file_size.is_some() && self.records.is_some() {
            return invalid("a maximum file size can't be combined with these record options, which write a single file".into());
        }
        max_file_size.map_or(Ok(()), check_max_file_size)?;
        self.compression.validate()
    }

    /// Returns advice about a value that can't be cut, to append to an error message; may be empty.
    pub(crate) fn hint(&self) -> &'static str {
        match self.profile {
            Profile::TensorFlow => "; the profile `extended` may cut it",
            Profile::Extended => "",
        }
    }

    /// Returns the effective maximum size of a MESSAGE chunk, in bytes: the smaller of the maximum
    /// chunk size and the size of the largest chunk that fits in a file of the maximum size.
    #[must_use]
    pub fn effective_max_chunk_size(&self) -> u64 {
        let most = self.max_file_size.map_or(u64::MAX, largest_chunk);
        self.max_chunk_size.min(most)
    }

    /// Returns the maximum size of a slice, in bytes: at most the maximum size of a MESSAGE chunk.
    #[must_use]
    pub fn effective_max_slice_size(&self) -> u64 {
        self.max_slice_size.min(self.effective_max_chunk_size())
    }

    /// Returns the maximum size of a BYTES chunk, in bytes; `None` if unlimited.
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

    /// Returns the maximum nesting depth of cuts, in messages: at most [`LARGEST_DEPTH_LIMIT`].
    #[must_use]
    pub fn effective_depth_limit(&self) -> u32 {
        self.depth_limit.min(LARGEST_DEPTH_LIMIT)
    }
}

/// Rules that forbid some of the cuts that a split by sizes alone would make.
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
    /// Creates an empty set of rules, which allows all cuts.
    #[must_use]
    pub const fn new() -> Self {
        SizeRules {
            kept_whole: BTreeSet::new(),
        }
    }

    /// Forbids chunks that consist of a message of this type, or of a slice of one of that type's
    /// fields. Cuts inside a nested message of another type are allowed.
    #[must_use]
    pub fn keep_whole(mut self, full_name: impl Into<String>) -> Self {
        self.kept_whole.insert(full_name.into());
        self
    }

    /// Adds the rules of another set.
    pub(crate) fn extend(&mut self, others: SizeRules) {
        self.kept_whole.extend(others.kept_whole);
    }

    pub(crate) fn keeps_whole(&self, full_name: &str) -> bool {
        self.kept_whole.contains(full_name)
    }
}
