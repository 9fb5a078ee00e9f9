//! Compression kinds and levels.
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The compression of a chunk's data, with the compressor's parameters.
///
/// The text form is `none`, `zstd[:level]`, `brotli[:level]` or `snappy[:level]`.
///
/// # Examples
///
/// ```
/// use record_file::Compression;
///
/// assert_eq!("zstd:5".parse::<Compression>()?, Compression::zstd(5));
/// assert_eq!("zstd".parse::<Compression>()?, Compression::ZSTD);
/// assert_eq!(Compression::brotli(9).to_string(), "brotli:9");
/// assert!("zstd:23".parse::<Compression>().is_err());
/// # Ok::<(), record_file::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    None,
    /// Zstandard.
    Zstd {
        /// Level, from -131072 to 22; a higher level compresses better, but more slowly.
        level: i32,
        /// Base-2 logarithm of the window size in bytes, from 10 to 31, or to 30 on a 32-bit
        /// machine. `None`: the level's default window.
        window_log: Option<u32>,
    },
    /// Brotli.
    Brotli {
        /// Level, from 0 to 11; a higher level compresses better, but more slowly.
        level: u32,
        /// Base-2 logarithm of the window size in bytes, from 10 to 30, or to 26 on a 32-bit
        /// machine. `None`: 22. With a value above 24, the stream uses an extension that brotli's
        /// specification doesn't define; every reader of this file format accepts the extension.
        window_log: Option<u32>,
    },
    /// Snappy.
    Snappy {
        /// Level, 1 or 2. Both have the same effect, since the encoder has only one level.
        level: u32,
    },
}

/// The compression algorithm of stored data, without the parameters that only a compressor needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompressionKind {
    /// No compression.
    None,
    /// Zstandard.
    Zstd,
    /// Brotli.
    Brotli,
    /// Snappy, as raw blocks.
    Snappy,
}

impl CompressionKind {
    /// Returns true if this build supports the codec. Each codec has a feature of the crate; these
    /// features are enabled by default.
    ///
    /// ```
    /// use record_file::CompressionKind;
    ///
    /// assert!(CompressionKind::None.is_available());
    /// assert_eq!(CompressionKind::Zstd.is_available(), cfg!(feature = "zstd"));
    /// ```
    #[must_use]
    pub const fn is_available(self) -> bool {
        match self {
            CompressionKind::None => true,
            CompressionKind::Zstd => cfg!(feature = "zstd"),
            CompressionKind::Brotli => cfg!(feature = "brotli"),
            CompressionKind::Snappy => cfg!(feature = "snappy"),
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => CompressionKind::None,
            b'z' => CompressionKind::Zstd,
            b'b' => CompressionKind::Brotli,
            b's' => CompressionKind::Snappy,
            _ => return None,
        })
    }

    pub(crate) fn byte(self) -> u8 {
        match self {
            CompressionKind::None => 0,
            CompressionKind::Zstd => b'z',
            CompressionKind::Brotli => b'b',
            CompressionKind::Snappy => b's',
        }
    }
}

impl fmt::Display for CompressionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompressionKind::None => "none",
            CompressionKind::Zstd => "zstd",
            CompressionKind::Brotli => "brotli",
            CompressionKind::Snappy => "snappy",
        })
    }
}

/// Default zstd level.
pub const DEFAULT_ZSTD_LEVEL: i32 = 3;
/// Default brotli level.
pub const DEFAULT_BROTLI_LEVEL: u32 = 6;

impl Compression {
    /// Zstandard at its default level.
    pub const ZSTD: Compression = Compression::zstd(DEFAULT_ZSTD_LEVEL);
    /// Brotli at its default level.
    pub const BROTLI: Compression = Compression::brotli(DEFAULT_BROTLI_LEVEL);
    /// Snappy.
    pub const SNAPPY: Compression = Compression::Snappy { level: 1 };

    /// Returns Zstandard compression at the given level.
    #[must_use]
    pub const fn zstd(level: i32) -> Self {
        Compression::Zstd {
            level,
            window_log: None,
        }
    }

    /// Returns Brotli compression at the given level.
    #[must_use]
    pub const fn brotli(level: u32) -> Self {
        Compression::Brotli {
            level,
            window_log: None,
        }
    }

    /// Returns the kind of compression.
    #[must_use]
    pub const fn kind(&self) -> CompressionKind {
        match self {
            Compression::None => CompressionKind::None,
            Compression::Zstd { .. } => CompressionKind::Zstd,
            Compression::Brotli { .. } => CompressionKind::Brotli,
            Compression::Snappy { .. } => CompressionKind::Snappy,
        }
    }

    /// Checks the level and the window, and that this build [supports the
    /// codec](CompressionKind::is_available).
    ///
    /// # Errors
    ///
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if the level or the window is out of
    /// range, or if the codec's feature is disabled.
    pub fn validate(&self) -> Result<()> {
        let kind = self.kind();
        if !kind.is_available() {
            let message =
                format!("this build can't compress with {kind}: its feature `{kind}` is off");
            return Err(Error::config(message));
        }
        match *self {
            Compression::None => Ok(()),
            Compression::Zstd { level, window_log } => {
                in_range("zstd level", level, -131_072, 22)?;
                in_range(
                    "zstd window_log",
                    window_log.unwrap_or(10),
                    10,
                    LARGEST_ZSTD_WINDOW,
                )
            }
            Compression::Brotli { level, window_log } => {
                in_range("brotli level", level, 0, 11)?;
                in_range(
                    "brotli window_log",
                    window_log.unwrap_or(10),
                    10,
                    LARGEST_BROTLI_WINDOW,
                )
            }
            Compression::Snappy { level } => in_range("snappy level", level, 1, 2),
        }
    }
}

/// Largest window of zstd on this machine, as a base-2 logarithm.
const LARGEST_ZSTD_WINDOW: u32 = if usize::BITS == 32 { 30 } else { 31 };

/// Largest window of brotli on this machine, as a base-2 logarithm. If brotli's compressor can't
/// allocate memory, it ends the process, so the window must fit in a 32-bit address space.
const LARGEST_BROTLI_WINDOW: u32 = if usize::BITS == 32 { 26 } else { 30 };

fn in_range<T: PartialOrd + fmt::Display>(what: &str, value: T, least: T, most: T) -> Result<()> {
    if value < least || value > most {
        return Err(Error::config(format!(
            "{what} {value} is not from {least} to {most}"
        )));
    }
    Ok(())
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::None => f.write_str("none"),
            Compression::Zstd { level, .. } => write!(f, "zstd:{level}"),
            Compression::Brotli { level, .. } => write!(f, "brotli:{level}"),
            Compression::Snappy { level: 1 } => f.write_str("snappy"),
            Compression::Snappy { level } => write!(f, "snappy:{level}"),
        }
    }
}

impl FromStr for Compression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let compression = match (name, level) {
            ("none" | "uncompressed", None) => Compression::None,
            ("zstd", _) => Compression::zstd(level_or(level, DEFAULT_ZSTD_LEVEL)?),
            ("brotli", _) => Compression::brotli(level_or(level, DEFAULT_BROTLI_LEVEL)?),
            ("snappy", _) => Compression::Snappy {
                level: level_or(level, 1)?,
            },
            _ => {
                return Err(Error::config(format!(
                    "compression {text:?} is not none, zstd[:level], brotli[:level] or snappy[:level]"
                )));
            }
        };
        compression.validate()?;
        Ok(compression)
    }
}

fn level_or<T: FromStr>(level: Option<&str>, default: T) -> Result<T> {
    match level {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| {
            Error::config(format!(
                "compression level {text:?} is not a number in range"
            ))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips() {
        for text in [
            "none",
            "zstd:3",
            "zstd:-131072",
            "zstd:22",
            "brotli:0",
            "brotli:11",
            "snappy",
            "snappy:2",
        ] {
            assert_eq!(text.parse::<Compression>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "None",
            "none:1",
            "zstd:",
            "zstd:23",
            "zstd:-131073",
            "brotli:12",
            "brotli:-1",
            "snappy:0",
            "snappy:3",
            "lz4",
            "zstd:3:4",
        ] {
            let error = text.parse::<Compression>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidConfig, "{text}");
        }
    }

    #[test]
    fn windows_are_checked() {
        let most = LARGEST_ZSTD_WINDOW;
        for (window_log, fine) in [(9, false), (10, true), (most, true), (most + 1, false)] {
            let compression = Compression::Zstd {
                level: 3,
                window_log: Some(window_log),
            };
            assert_eq!(compression.validate().is_ok(), fine);
        }
        let most = LARGEST_BROTLI_WINDOW;
        for (window_log, fine) in [(9, false), (10, true), (most, true), (most + 1, false)] {
            let compression = Compression::Brotli {
                level: 3,
                window_log: Some(window_log),
            };
            assert_eq!(compression.validate().is_ok(), fine);
        }
    }
}
