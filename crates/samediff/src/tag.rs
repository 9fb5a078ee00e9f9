//! Tags, which are the names of a model's checkpoints.

use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind, Result};

/// Maximum length of a tag's name, in bytes, as for file names in common file systems.
pub const MAX_TAG_LEN: usize = 255;

/// Names that Windows reserves for devices, even if they have an extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

/// The name of a tag, which is also the name of the tag's folder in the archive.
///
/// A tag's name has 1 to 255 bytes. It doesn't contain `/ \ : * ? " < > |`, whitespace or control
/// characters, and doesn't end in a dot. It is neither `tags.txt` nor a name that Windows reserves
/// for a device. Names that differ only in case denote the same tag, so tags are compared by
/// [`folded`](Self::folded).
///
/// ```
/// use proto_splitter_samediff::Tag;
///
/// let tag: Tag = "Epoch-10".parse()?;
/// assert_eq!(tag.as_str(), "Epoch-10");
/// assert!(tag.is("EPOCH-10"));
/// assert!("no spaces".parse::<Tag>().is_err());
/// # Ok::<(), proto_splitter_samediff::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tag {
    name: Box<str>,
    folded: Box<str>,
}

impl Tag {
    /// Returns the name as it was spelled when the tag was parsed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns the name in lower case, by which tags are compared.
    #[must_use]
    pub fn folded(&self) -> &str {
        &self.folded
    }

    /// Returns true if `name` is this tag's name, ignoring case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        *self.name == *name || *self.folded == *fold(name)
    }
}

/// Returns the lower-case form of a tag's name, by which tags are compared.
pub(crate) fn fold(name: &str) -> String {
    name.to_lowercase()
}

impl PartialEq for Tag {
    fn eq(&self, other: &Tag) -> bool {
        self.folded == other.folded
    }
}

impl Eq for Tag {}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl FromStr for Tag {
    type Err = Error;

    /// # Errors
    ///
    /// [`ErrorKind::InvalidTag`] if a tag can't have this name.
    fn from_str(name: &str) -> Result<Tag> {
        match objection(name) {
            Some(objection) => Err(Error::new(
                ErrorKind::InvalidTag,
                format!("tag {name:?} {objection}"),
            )),
            None => Ok(Tag {
                name: name.into(),
                folded: fold(name).into(),
            }),
        }
    }
}

/// Returns the reason why a tag can't have this name; `None` if it can.
fn objection(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("is empty".into());
    }
    if name.len() > MAX_TAG_LEN {
        return Some(format!("is longer than {MAX_TAG_LEN} bytes"));
    }
    for c in name.chars() {
        if r#"/\:*?"<>|"#.contains(c) {
            return Some(format!("has {c:?} in it, which no file name may have"));
        }
        if c.is_whitespace() || c.is_control() {
            return Some(format!("has {c:?} in it, which no tag may have"));
        }
    }
    // This test also rejects `.` and `..`.
    if name.ends_with('.') {
        return Some("ends in a dot".into());
    }
    let folded = fold(name);
    if folded == crate::layout::TAGS {
        return Some("is the name of the list of tags".into());
    }
    is_device(&folded).then(|| "is the name of a device on Windows".into())
}

fn is_device(folded: &str) -> bool {
    let stem = folded.split('.').next().unwrap_or(folded);
    let numbered = |device: &str| {
        let number = stem.strip_prefix(device);
        number.is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']))
    };
    DEVICES.contains(&stem) || NUMBERED_DEVICES.into_iter().any(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_name_that_every_file_system_takes() {
        for good in ["a", "Epoch-10", "v1.2", "com", "com10", "näher", "~", "a&b"] {
            assert_eq!(good.parse::<Tag>().unwrap().as_str(), good);
        }
        let long = "a".repeat(256);
        for bad in [
            "", ".", "..", "a.", "a b", "a\tb", "a/b", "a\\b", "c:", "a*", "a?", "\"", "<", ">",
            "|", "a\0", "CON", "nul.txt", "COM1", "lpt9.fb", "Tags.TXT", &long,
        ] {
            let error = bad.parse::<Tag>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidTag, "{bad:?}");
        }
    }
}
