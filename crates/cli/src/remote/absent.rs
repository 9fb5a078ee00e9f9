//! The replacement for object stores in a build without them.

#[allow(
    dead_code,
    reason = "where nothing is copied, inputs alone are of interest"
)]
mod arguments;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter::parts::Objects;

use crate::args::Command;
use crate::failure::Failure;
use crate::open_objects::{OpenObjects, only_files};
use crate::output::Output;
use arguments::arguments;

/// Returns the arguments that name the command's inputs.
pub(crate) fn inputs(command: &mut Command) -> Vec<&mut PathBuf> {
    arguments(command).inputs
}

/// The copies of a command's inputs and outputs. Always empty, since this build supports no stores.
#[derive(Debug)]
pub(crate) struct Staged;

impl Staged {
    pub(crate) fn finish(self, _: &mut Output<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

pub(crate) fn stage(_: &mut Command, _: &mut Output<'_>) -> Result<Staged, Failure> {
    Ok(Staged)
}

/// Does nothing. Without stores, arguments aren't URLs, so they contain no passwords or tokens.
pub(crate) fn hide_secrets(_: &[OsString]) {}

pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

pub(crate) fn is_url(_: &Path) -> bool {
    false
}

/// Returns `None`, so that a URL is treated as the name of a file.
fn unknown_scheme(_: &Path) -> Option<&str> {
    None
}

pub(crate) fn stores() -> Option<Arc<dyn Objects>> {
    None
}

pub(crate) fn check_scheme(_: &Path) -> Result<(), Failure> {
    Ok(())
}

pub(crate) fn check_not_hidden(_: &Path) -> Result<(), Failure> {
    Ok(())
}

pub(crate) fn find(named: &Path) -> Result<(PathBuf, OpenObjects), Failure> {
    Ok((named.to_owned(), OpenObjects))
}

/// Fails, since this build can't write objects.
pub(crate) fn write_object<T>(
    named: &Path,
    _: bool,
    _: u64,
    _: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    Err(only_files(named))
}
