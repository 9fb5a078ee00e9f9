//! The names that entries may have.

use crate::{Error, ErrorKind, Result};

/// Fails unless an entry's name is a plain relative path, which can't lead outside of a folder.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let objection = if name.is_empty() {
        "is empty"
    } else if name.starts_with('/') {
        "is an absolute path"
    } else if name.contains('\\') {
        "has a backslash in it"
    } else if name.as_bytes().get(1) == Some(&b':') {
        "begins with a drive"
    } else if name.contains(|c: char| c.is_control()) {
        "has a control character in it"
    } else if parts(name).any(|part| matches!(part, "" | "." | "..")) {
        "has a part that is empty or leads elsewhere"
    } else {
        return Ok(());
    };
    let message = format!("the entry's name {name:?} {objection}");
    Err(Error::new(ErrorKind::UnsafeName, message))
}

/// Returns the components of an entry's path, ignoring the slash at the end of a folder's path.
fn parts(name: &str) -> std::str::Split<'_, char> {
    name.strip_suffix('/').unwrap_or(name).split('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_below_the_archive() {
        for good in ["tags.txt", "a/params/0.fb", "a/", "näher/x", "a..b/c."] {
            check_name(good).unwrap();
        }
        for bad in [
            "", "/", "/a", "../a", "a/..", "a/../b", "a//b", "./a", "a\\b", "c:/a", "C:a", "a\0b",
            "a\n",
        ] {
            let error = check_name(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnsafeName, "{bad:?}");
        }
    }
}
