//! Compression of chunks: chosen for each chunk, or the same for all.

use std::fmt;
use std::str::FromStr;

use record_file::{Compression, CompressionKind, DEFAULT_MAX_WINDOW_LOG, DEFAULT_ZSTD_LEVEL};

use crate::{Error, ErrorKind, Result};

/// The smallest saving for which [`ChunkCompression::Auto`] compresses a chunk, as the denominator
/// of a fraction of the chunk's size: 8 means one eighth.
pub const AUTO_LEAST_SAVING: usize = 8;

/// The compression of a chunked file's records.
///
/// The text form is `auto[:level]`, or the text form of a [`Compression`].
///
/// ```
/// use proto_splitter_core::split::ChunkCompression;
/// assert_eq!("auto".parse::<ChunkCompression>()?, ChunkCompression::default());
/// assert_eq!("auto:9".parse::<ChunkCompression>()?, ChunkCompression::Auto { level: 9 });
/// assert_eq!("brotli".parse::<ChunkCompression>()?.to_string(), "brotli:6");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkCompression {
    /// Compression with zstd for each chunk in which zstd saves [enough](AUTO_LEAST_SAVING)
    /// according to a probe, and no compression for other chunks. Without the feature `zstd`, no
    /// chunk is compressed. In floating-point weights, which are read several times faster
    /// uncompressed, zstd usually saves less; in graphs and text, it saves far more.
    Auto {
        /// The zstd compression level.
        level: i32,
    },
    /// The same compression for every chunk.
    Fixed(Compression),
}

/// The default of [`SplitOptions::compression`](super::SplitOptions::compression) and of
/// [`RewriteOptions::compression`](crate::edit::RewriteOptions::compression): zstd at its default
/// level, for chunks in which it saves enough.
pub const DEFAULT_CHUNK_COMPRESSION: ChunkCompression = ChunkCompression::Auto {
    level: DEFAULT_ZSTD_LEVEL,
};

impl Default for ChunkCompression {
    fn default() -> Self {
        DEFAULT_CHUNK_COMPRESSION
    }
}

impl From<Compression> for ChunkCompression {
    fn from(compression: Compression) -> Self {
        ChunkCompression::Fixed(compression)
    }
}

impl fmt::Display for ChunkCompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChunkCompression::Auto { level } => write!(f, "auto:{level}"),
            ChunkCompression::Fixed(compression) => compression.fmt(f),
        }
    }
}

impl FromStr for ChunkCompression {
    type Err = Error;

    /// Parses `auto`, `auto:LEVEL`, or a [`Compression`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the text has another form, or the level is out of range.
    fn from_str(text: &str) -> Result<Self> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        if name != "auto" {
            let is_known = ["none", "zstd", "brotli", "snappy"].contains(&name);
            return text.parse().map(ChunkCompression::Fixed).map_err(|error| {
                let message = if is_known {
error.to_string()
} else {
format!(
                        "compression {text:?} is not auto[:level], none, zstd[:level], brotli[:level] or snappy"
                    )
};
                Error::new(ErrorKind::InvalidConfig, message).with_source(error)
            });
        }
        let level = level.map_or(Ok(DEFAULT_ZSTD_LEVEL), str::parse);
        let level = level
            .ok()
            .filter(|level| !has_zstd() || Compression::zstd(*level).validate().is_ok());
        level
            .map(|level| ChunkCompression::Auto { level })
            .ok_or_else(|| {
                let message = format!("compression {text:?}: the level is not a zstd level");
                Error::new(ErrorKind::InvalidConfig, message)
            })
    }
}

impl ChunkCompression {
    /// Fails with [`ErrorKind::InvalidConfig`] if a level or a window is out of range, or a window
    /// is larger than readers accept.
    pub(crate) fn validate(self) -> Result<()> {
        let compression = self.for_trailer();
        compression.validate().map_err(|error| {
            Error::new(ErrorKind::InvalidConfig, error.to_string()).with_source(error)
        })?;
        if let Compression::Zstd { window_log, .. } | Compression::Brotli { window_log, .. } =
            compression
            && let Some(log) = window_log
            && log > DEFAULT_MAX_WINDOW_LOG
        {
            let message = format!(
                "window_log {log} is larger than readers accept: at most {DEFAULT_MAX_WINDOW_LOG}"
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        Ok(())
    }

    /// Returns the compression for the trailer, which isn't probed: its tags and paths compress
    /// well.
    pub(crate) fn for_trailer(self) -> Compression {
        match self {
            ChunkCompression::Fixed(compression) => compression,
            ChunkCompression::Auto { level } if has_zstd() => Compression::zstd(level),
            ChunkCompression::Auto { .. } => Compression::None,
        }
    }
}

/// Returns true if zstd, the only compression that [`ChunkCompression::Auto`] uses, is available.
fn has_zstd() -> bool {
    CompressionKind::Zstd.is_available()
}
