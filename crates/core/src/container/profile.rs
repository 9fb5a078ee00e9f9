//! Profiles, which determine the readers that accept a file.

use crate::path::MapKey;
use crate::{Error, ErrorKind, Result};
use prost_reflect::Kind;

/// The profile of a chunked file, which determines the readers that accept the file.
///
/// The text form is `tensorflow` or `extended`.
///
/// ```
/// use proto_splitter_core::split::Profile;
/// assert_eq!("extended".parse::<Profile>()?, Profile::Extended);
/// assert_eq!(Profile::default().to_string(), "tensorflow");
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// The profile of files with `join_version` 0, which TensorFlow's own Merger can read.
    #[default]
    TensorFlow,
    /// The profile of files with `join_version` 1, which this crate can read but TensorFlow's
    /// reader refuses. Any string or bytes value may be in several BYTES chunks, even if the value
    /// is an element of a repeated field or is in a map whose keys aren't zigzag-encoded. A trailer
    /// that is too large is split into chunks like any message, and chunks may be in [several
    /// files](crate::split::SplitOptions::max_file_size).
    Extended,
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Profile::TensorFlow => "tensorflow",
            Profile::Extended => "extended",
        })
    }
}

impl std::str::FromStr for Profile {
    type Err = Error;

    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the text is neither `tensorflow` nor `extended`.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "tensorflow" => Ok(Profile::TensorFlow),
            "extended" => Ok(Profile::Extended),
            _ => Err(Error::new(
                ErrorKind::InvalidConfig,
                format!("profile {text:?} is neither tensorflow nor extended"),
            )),
        }
    }
}

/// Returns true if a path may contain this key. TensorFlow's Merger truncates integer keys to
/// int32, and supports neither zigzag-encoded nor fixed-width keys. A merge without the type can't
/// distinguish zigzag from plain varints.
pub(crate) fn key_is_addressable(key: &MapKey, kind: &Kind, profile: Profile) -> bool {
    match profile {
        Profile::TensorFlow => is_plain(kind) && is_small(key),
        Profile::Extended => !matches!(kind, Kind::Sint32 | Kind::Sint64),
    }
}

fn is_plain(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::String | Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64
    )
}

fn is_small(key: &MapKey) -> bool {
    match *key {
        MapKey::String(_) | MapKey::Bool(_) | MapKey::I32(_) => true,
        MapKey::I64(key) => i32::try_from(key).is_ok(),
        MapKey::U32(key) => i32::try_from(key).is_ok(),
        MapKey::U64(key) => i32::try_from(key).is_ok(),
    }
}
