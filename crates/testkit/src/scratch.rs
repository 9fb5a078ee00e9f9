//! Temporary folders and scale factors for benchmarks.

use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// Creates a temporary folder on the repository's disk, since the system's folder for temporary
/// files may be in memory. Dropping the result removes the folder and its content.
///
/// # Errors
///
/// If the folder can't be created.
pub fn scratch_folder() -> io::Result<TempDir> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    fs::create_dir_all(&target)?;
    tempfile::tempdir_in(target.canonicalize()?)
}

/// Returns the factor by which a benchmark's data is smaller than usual: `quick` if the argument
/// `--quick` is given, and otherwise 1.
pub fn scale(quick: u64) -> u64 {
    if std::env::args().any(|argument| argument == "--quick") {
        quick
    } else {
        1
    }
}
