//! Options for a writer, as a string.
use std::fmt;
use std::str::FromStr;

use super::{DEFAULT_BUCKET_FRACTION, DEFAULT_PADDING, WriterOptions};
use crate::compression::{Compression, DEFAULT_BROTLI_LEVEL, DEFAULT_ZSTD_LEVEL};
use crate::error::{Error, Result};

const KEYS: &str = "default, transpose, uncompressed, brotli, zstd, snappy, window_log, brotli_encoder, chunk_size, \
                    bucket_fraction, padding, initial_padding, final_padding, parallelism";

impl FromStr for WriterOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parsed = Parsed::default();
        let mut seen: Vec<&str> = Vec::new();
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (key, value) = match option.split_once(':') {
                Some((key, value)) => (key, Some(value)),
                None => (option, None),
            };
            if seen.contains(&key) {
                return Err(Error::config(format!("option {key} is given twice")));
            }
            if key == "default" && !seen.is_empty() {
                return Err(Error::config("option default must come first"));
            }
            parsed.take(key, value)?;
            seen.push(key);
        }
        let options = parsed.options()?;
        options.validate()?;
        Ok(options)
    }
}

/// The options parsed so far.
#[derive(Default)]
struct Parsed<'a> {
    rest: WriterOptions,
    codec: Option<(&'a str, Compression)>,
    window_log: Option<Option<u32>>,
    padding: Option<u64>,
    initial_padding: Option<u64>,
    final_padding: Option<u64>,
}

impl<'a> Parsed<'a> {
    fn take(&mut self, key: &'a str, value: Option<&'a str>) -> Result<()> {
        match key {
            "default" => none(key, value),
            "transpose" => {
                self.rest.transpose = match value {
                    None | Some("true") => true,
                    Some("false") => false,
                    _ => return Err(invalid(key, value, "true or false")),
                };
                Ok(())
            }
            "uncompressed" => {
                none(key, value)?;
                self.codec(key, Compression::None)
            }
            "brotli" => {
                let level = number(key, value, Some(DEFAULT_BROTLI_LEVEL))?;
                self.codec(key, Compression::brotli(level))
            }
            "zstd" => {
                let level = match number(key, value, Some(DEFAULT_ZSTD_LEVEL))? {
                    0 => DEFAULT_ZSTD_LEVEL,
                    level => level,
                };
                self.codec(key, Compression::zstd(level))
            }
            "snappy" => {
                let level = number(key, value, Some(1))?;
                self.codec(key, Compression::Snappy { level })
            }
            "window_log" => {
                self.window_log = Some(match value {
                    Some("auto") => None,
                    _ => Some(number(key, value, None)?),
                });
                Ok(())
            }
            // In another implementation, this option chooses between two encoders for the same
            // format.
            "brotli_encoder" => match value {
                Some("rbrotli_or_cbrotli" | "cbrotli" | "rbrotli") => Ok(()),
                _ => Err(invalid(
                    key,
                    value,
                    "rbrotli_or_cbrotli, cbrotli or rbrotli",
                )),
            },
            "chunk_size" => {
                self.rest.chunk_size = match value {
                    Some("auto") => None,
                    _ => Some(size(key, value, None)?),
                };
                Ok(())
            }
            "bucket_fraction" => {
                self.rest.bucket_fraction = number(key, value, None)?;
                Ok(())
            }
            "padding" => padding(&mut self.padding, key, value),
            "initial_padding" => padding(&mut self.initial_padding, key, value),
            "final_padding" => padding(&mut self.final_padding, key, value),
            "parallelism" => {
                self.rest.threads = number(key, value, None)?;
                Ok(())
            }
            _ => Err(Error::config(format!(
                "unknown option {key:?}, not one of {KEYS}"
            ))),
        }
    }

    fn codec(&mut self, key: &'a str, compression: Compression) -> Result<()> {
        if let Some((other, _)) = self.codec {
            return Err(Error::config(format!(
                "options {other} and {key} exclude each other"
            )));
        }
        self.codec = Some((key, compression));
        Ok(())
    }

    fn options(self) -> Result<WriterOptions> {
        let mut options = self.rest;
        if let Some((_, compression)) = self.codec {
            options.compression = compression;
        }
        if let Some(log) = self.window_log {
            match &mut options.compression {
                Compression::Zstd { window_log, .. } | Compression::Brotli { window_log, .. } => {
                    *window_log = log;
                }
                Compression::None | Compression::Snappy { .. } => {
                    return Err(Error::config(format!(
                        "option window_log doesn't apply to {}",
                        options.compression
                    )));
                }
            }
        }
        let padding = self.padding.unwrap_or(1);
        options.initial_padding = self.initial_padding.unwrap_or(padding);
        options.final_padding = self.final_padding.unwrap_or(padding);
        Ok(options)
    }
}

fn none(key: &str, value: Option<&str>) -> Result<()> {
    match value {
        None | Some("") => Ok(()),
        _ => Err(invalid(key, value, "nothing")),
    }
}

/// Parses a number; a missing value is an error unless there is a default.
fn number<T: FromStr>(key: &str, value: Option<&str>, default: Option<T>) -> Result<T> {
    match (value, default) {
        (None | Some(""), Some(default)) => Ok(default),
        (Some(text), _) => text
            .parse()
            .map_err(|_| invalid(key, value, "a number in range")),
        (None, None) => Err(invalid(key, value, "a number")),
    }
}

fn padding(field: &mut Option<u64>, key: &str, value: Option<&str>) -> Result<()> {
    *field = Some(size(key, value, Some(DEFAULT_PADDING))?);
    Ok(())
}

/// Parses a number of bytes.
fn size(key: &str, value: Option<&str>, default: Option<u64>) -> Result<u64> {
    match (value, default) {
        (None | Some(""), Some(default)) => Ok(default),
        _ => value
            .and_then(parse_size)
            .filter(|&bytes| bytes > 0)
            .ok_or_else(|| {
                let what = "1 or more bytes, as a number with or without a suffix of BkKMGTPE";
                invalid(key, value, what)
            }),
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'B') => (&text[..at], 0),
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'M') => (&text[..at], 20),
        (at, 'G') => (&text[..at], 30),
        (at, 'T') => (&text[..at], 40),
        (at, 'P') => (&text[..at], 50),
        (at, 'E') => (&text[..at], 60),
        _ => (text, 0),
    };
    // Whole numbers are parsed exactly, since a double has only 53 bits.
    if let Ok(whole) = digits.parse::<u64>() {
        return Some(whole.saturating_mul(1 << shift));
    }
    let real = digits
        .parse::<f64>()
        .ok()
        .filter(|real| real.is_finite() && *real >= 0.0)?;
    let scaled = (real * f64::from(shift).exp2()).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and saturation is what is wanted"
    )]
    Some(scaled as u64)
}

fn invalid(key: &str, value: Option<&str>, expected: &str) -> Error {
    let value = value.unwrap_or_default();
    Error::config(format!(
        "option {key} has the value {value:?}, not {expected}"
    ))
}

/// Formats a string with the compression, and with all options that [`FromStr`] knows and that
/// differ from their defaults. The string doesn't contain the metadata, `max_copied` and
/// `stream_from`. `FromStr` reads level 0 of zstd as level 3, which has the same meaning.
impl fmt::Display for WriterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transpose {
            f.write_str("transpose,")?;
        }
        match self.compression {
            Compression::None => f.write_str("uncompressed")?,
            compression => write!(f, "{compression}")?,
        }
        if let Compression::Zstd { window_log, .. } | Compression::Brotli { window_log, .. } =
            self.compression
            && let Some(log) = window_log
        {
            write!(f, ",window_log:{log}")?;
        }
        if let Some(bytes) = self.chunk_size {
            write!(f, ",chunk_size:{}", Size(bytes))?;
        }
        if self.bucket_fraction.to_bits() != DEFAULT_BUCKET_FRACTION.to_bits() {
            write!(f, ",bucket_fraction:{}", self.bucket_fraction)?;
        }
        if self.initial_padding == self.final_padding && self.final_padding != 1 {
            write!(f, ",padding:{}", Size(self.final_padding))?;
        } else {
            for (key, bytes) in [
                ("initial_padding", self.initial_padding),
                ("final_padding", self.final_padding),
            ] {
                if bytes != 1 {
                    write!(f, ",{key}:{}", Size(bytes))?;
                }
            }
        }
        if self.threads > 0 {
            write!(f, ",parallelism:{}", self.threads)?;
        }
        Ok(())
    }
}

struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let powers = (self.0.trailing_zeros() / 10).min(6);
        let suffix = ["", "K", "M", "G", "T", "P", "E"];
        match suffix.get(powers as usize) {
            Some(suffix) if self.0 > 0 => write!(f, "{}{suffix}", self.0 >> (10 * powers)),
            _ => write!(f, "{}", self.0),
        }
    }
}
