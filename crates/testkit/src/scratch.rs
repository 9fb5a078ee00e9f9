//! What a benchmark begins with.

use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// A new folder on the disk that the repository is on, which is removed with what is in it;
/// temporary folders may be in memory.
///
/// # Errors
///
/// If it can't be made.
pub fn scratch_folder() -> io::Result<TempDir> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    fs::create_dir_all(&target)?;
    tempfile::tempdir_in(target.canonicalize()?)
}

/// Returns how much smaller everything is made: this many times with `--quick`, to see that it runs.
pub fn scale(quick: u64) -> u64 {
    if std::env::args().any(|argument| argument == "--quick") {
        quick
    } else {
        1
    }
}
