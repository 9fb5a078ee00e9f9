//! Writing an output as a file, or within a copy of a SavedModel's folder.

use std::path::{Path, PathBuf};

use proto_splitter::directory::{MODEL_STEM, rebuild};

use crate::failure::Failure;
use crate::fingerprint::note_refusal;
use crate::output::Output;
use crate::place::with_extension;

/// The target of a command that writes a model, and the options for writing it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saving<'a> {
    pub(crate) target: &'a Path,
    pub(crate) force: bool,
    pub(crate) keep_fingerprint: bool,
}

impl Saving<'_> {
    /// Copies a SavedModel's folder to the target, with the model that `fill` writes, and returns
    /// the result of `fill`. Notes if the fingerprint couldn't be updated.
    pub(crate) fn rebuild<T>(
        self,
        folder: &Path,
        fill: impl FnOnce(&Path) -> Result<T, Failure>,
        output: &mut Output<'_>,
    ) -> Result<T, Failure> {
        let options = output.saving(self.keep_fingerprint).force(self.force);
        let rebuilt = rebuild(folder, self.target, &options, fill)?;
        note_refusal(&rebuilt.fingerprint, output);
        Ok(rebuilt.filled)
    }

    /// Writes a file with `make`, and returns the result of `make`. If `folder` is given, the file
    /// is in a copy of this folder, and the file's path is also returned.
    pub(crate) fn place<T>(
        self,
        folder: Option<&Path>,
        extension: &str,
        make: impl Fn(&Path, bool) -> Result<T, Failure>,
        output: &mut Output<'_>,
    ) -> Result<(Option<PathBuf>, T), Failure> {
        let Some(folder) = folder else {
            return Ok((None, make(self.target, self.force)?));
        };
        let fill = |prefix: &Path| make(&with_extension(prefix, extension), false);
        let made = self.rebuild(folder, fill, output)?;
        let path = with_extension(&self.target.join(MODEL_STEM), extension);
        Ok((Some(path), made))
    }
}
