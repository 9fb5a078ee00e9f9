//! The identity of a file or object. Each host compares the identity of a plan's input with the
//! identity in the plan, to find out if the input has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use record_file::ReadAt;

use super::objects::OpenObject;
use crate::proto::Input;
use proto_splitter_core::part_work::{folder, open_file};
use proto_splitter_core::{Error, ErrorKind, Result};

/// Number of blocks to read from a file. The identity of the file includes a checksum of all these
/// blocks.
const SAMPLES: u64 = 16;

/// Size of each block that is read for a file's identity, in bytes: 4 KiB.
const SAMPLE: u64 = 4 << 10;

/// Returns the current identity of the file at `path`.
pub(super) fn identify(path: &Path) -> Result<Input> {
    let failed = |error: std::io::Error| Error::from(error).in_file(path);
    let file = open_file(path)?;
    let metadata = file.metadata().map_err(failed)?;
    let modified = metadata.modified().ok();
    let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok(Input {
        path: absolute(path)?,
        size: metadata.len(),
        modified: modified.and_then(|since| i64::try_from(since.as_nanos()).ok()),
        sample_crc32c: sample(&file, metadata.len()).map_err(failed)?,
        version: None,
    })
}

/// Returns the current identity of the open object called `name`.
pub(super) fn identify_object(name: &str, object: &OpenObject) -> Result<Input> {
    let failed = |error: std::io::Error| Error::from(error).context(name);
    let size = object.source.size().map_err(failed)?;
    Ok(Input {
        path: name.to_owned(),
        size,
        modified: None,
        sample_crc32c: match object.version {
            Some(_) => 0,
            None => sample(&*object.source, size).map_err(failed)?,
        },
        version: object.version.clone(),
    })
}

/// Fails if the file has changed since the plan was made.
pub(super) fn check(planned: &Input) -> Result<()> {
    check_same(planned, &identify(Path::new(&planned.path))?)
}

/// Fails if the current identity `now` differs from the planned one.
pub(super) fn check_same(planned: &Input, now: &Input) -> Result<()> {
    let what = if now.size != planned.size {
        format!("it has {} bytes, but had {} before", now.size, planned.size)
    } else if now.version != planned.version {
        "it was replaced".to_owned()
    } else if now.modified != planned.modified {
        "it was written to".to_owned()
    } else if now.sample_crc32c != planned.sample_crc32c {
        "its bytes differ".to_owned()
    } else {
        return Ok(());
    };
    let message = format!("{}: changed since the plan was made: {what}", planned.path);
    Err(Error::new(ErrorKind::SourceChanged, message))
}

/// Returns the absolute form of a path, which doesn't depend on the current folder.
pub(super) fn absolute(path: &Path) -> Result<String> {
    let absolute = match fs::canonicalize(path) {
        Ok(absolute) => absolute,
        // If the file doesn't exist yet, its path can't be resolved.
        Err(_) => std::path::absolute(path).map_err(|error| Error::from(error).in_file(path))?,
    };
    text_of(absolute)
}

/// Returns the absolute path of the file called `name` in the folder of `path`.
pub(super) fn absolute_beside(path: &Path, name: &str) -> Result<String> {
    let folder = absolute(folder(path))?;
    Ok(format!("{}/{name}", folder.trim_end_matches('/')))
}

/// Converts a path to a string for a plan. Fails if the path isn't Unicode.
pub(super) fn text_of(path: PathBuf) -> Result<String> {
    path.into_os_string().into_string().map_err(|path| {
        let path = Path::new(&path).display();
        let message = format!("{path}: a plan can't refer to a name that isn't Unicode");
        Error::new(ErrorKind::InvalidConfig, message)
    })
}

fn sample<S: ReadAt + ?Sized>(file: &S, size: u64) -> std::io::Result<u32> {
    let length = SAMPLE.min(size);
    let mut block = vec![0; usize::try_from(length).unwrap_or_default()];
    let mut crc = 0;
    for at in 0..SAMPLES {
        // The first block is at the start, the last one at the end, and the others are equally
        // spaced.
        let share = u128::from(size - length) * u128::from(at) / u128::from(SAMPLES - 1);
        let offset = u64::try_from(share).unwrap_or(size - length);
        file.read_exact_at(offset, &mut block)?;
        crc = crc32c::crc32c_append(crc, &block);
    }
    Ok(crc)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_object_is_told_by_its_version_or_else_by_its_bytes() {
        let object = |bytes: &[u8], version: Option<&str>| {
            let object = OpenObject {
                source: Arc::new(bytes.to_vec()),
                version: version.map(str::to_owned),
            };
            identify_object("s3://b/m", &object).unwrap()
        };
        let planned = object(b"one", Some("1"));
        check_same(&planned, &object(b"one", Some("1"))).unwrap();
        for (now, said) in [
            (object(b"one", Some("2")), "it was replaced"),
            (
                object(b"four", Some("1")),
                "it has 4 bytes, but had 3 before",
            ),
        ] {
            let error = check_same(&planned, &now).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SourceChanged);
            assert!(error.to_string().ends_with(said), "{error}");
        }
        let error = check_same(&object(b"one", None), &object(b"two", None)).unwrap_err();
        assert!(error.to_string().ends_with("its bytes differ"), "{error}");
    }

    #[test]
    fn a_file_that_grew_or_was_written_to_or_has_other_bytes_is_told_from_the_planned_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, vec![1; 100_000]).unwrap();
        let planned = identify(&path).unwrap();
        check(&planned).unwrap();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let changed = |bytes: &[u8], same_time: bool| {
            fs::write(&path, bytes).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            let later = time + std::time::Duration::from_secs(1);
            file.set_modified(if same_time { time } else { later })
                .unwrap();
            check(&planned).unwrap_err().to_string()
        };
        let mut other = vec![1; 100_000];
        other[99_999] = 2;
        for (bytes, same_time, said) in [
            (
                vec![1; 100_001],
                true,
                "it has 100001 bytes, but had 100000 before",
            ),
            (vec![1; 100_000], false, "it was written to"),
            (other, true, "its bytes differ"),
        ] {
            let error = changed(&bytes, same_time);
            assert!(error.ends_with(said), "{error}");
        }
    }

    #[test]
    fn a_small_file_is_looked_at_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for size in [0, 1, 4096] {
            fs::write(&path, vec![7; size]).unwrap();
            check(&identify(&path).unwrap()).unwrap();
        }
    }
}
