//! Profiles: the sets of readers that accept a file.

use crate::path::MapKey;
use crate::{Error, ErrorKind, Result};
use prost_reflect::Kind;

/// A profile, which determines which readers accept a chunked file.
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
    /// TensorFlow's own Merger can read the file. It has `join_version` 0.
    #[default]
    TensorFlow,
    /// Only readers that support `join_version` 1, such as this crate, can read the file;
    /// TensorFlow's reader refuses it. A value may be in several BYTES chunks, including an element
    /// of a repeated field or a value in a map, unless the map's key is zigzag-encoded. A trailer
    /// that is too large is chunked like any message, and chunks may be in [several
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

/// Returns true if a path may contain this key. TensorFlow's Merger truncates integers to an int32,
/// and supports only these encodings. A merge without the type can't distinguish zigzag from plain
/// varints.
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
