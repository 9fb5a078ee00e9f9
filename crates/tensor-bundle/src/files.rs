//! Names of a bundle's files, and opening them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

fn with_suffix(prefix: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(prefix);
    name.push(suffix);
    name.into()
}

/// Returns the path of the index in the bundle with this prefix.
#[must_use]
pub fn index_path(prefix: &Path) -> PathBuf {
    with_suffix(prefix, ".index")
}

/// Returns the path of the data file with the number `shard`, counted from 0, in the bundle with
/// this prefix.
///
/// ```
/// use proto_splitter_tensor_bundle::data_path;
///
/// let path = data_path("model.ckpt".as_ref(), 1, 4);
/// assert_eq!(path.to_str(), Some("model.ckpt.data-00001-of-00004"));
/// ```
#[must_use]
pub fn data_path(prefix: &Path, shard: u32, num_shards: u32) -> PathBuf {
    with_suffix(prefix, &format!(".data-{shard:05}-of-{num_shards:05}"))
}

/// Returns the prefix of the bundle to which a file belongs, according to the file's name; `None`
/// if no file of a bundle can have this name.
///
/// ```
/// use proto_splitter_tensor_bundle::prefix_of;
///
/// for path in ["a/model.index", "a/model.data-00000-of-00001"] {
///     assert_eq!(prefix_of(path.as_ref()).as_deref(), Some("a/model".as_ref()));
/// }
/// assert_eq!(prefix_of("a/model.data-of".as_ref()), None);
/// ```
#[must_use]
pub fn prefix_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = match name.strip_suffix(".index") {
        Some(stem) => stem,
        None => {
            let (stem, shard) = name.rsplit_once(".data-")?;
            let (shard, all) = shard.split_once("-of-")?;
            let is_number =
                |text: &str| text.len() >= 5 && text.bytes().all(|b| b.is_ascii_digit());
            if !is_number(shard) || !is_number(all) {
                return None;
            }
            stem
        }
    };
    (!stem.is_empty()).then(|| path.with_file_name(stem))
}
