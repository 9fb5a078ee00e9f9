//! A build without object stores.

#[allow(
    dead_code,
    reason = "where nothing is copied, inputs alone are of interest"
)]
mod arguments;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter::parts::Objects;

use crate::args::Command;
use crate::failure::Failure;
use crate::open_objects::{OpenObjects, only_files};
use crate::output::Output;
use arguments::arguments;

/// Returns the arguments of a command that name inputs.
pub(crate) fn inputs(command: &mut Command) -> Vec<&mut PathBuf> {
    arguments(command).inputs
}

/// A type without contents, since nothing is copied to a store.
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

/// Does nothing, since all arguments are paths, which contain no secrets.
pub(crate) fn hide_secrets(_: &[OsString]) {}

pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

pub(crate) fn is_url(_: &Path) -> bool {
    false
}

/// Returns `None`, since a build without stores doesn't know any scheme.
fn unknown_scheme(_: &Path) -> Option<&str> {
    None
}

pub(crate) fn stores() -> Option<Arc<dyn Objects>> {
    None
}

pub(crate) fn check_scheme(_: &Path) -> Result<(), Failure> {
    Ok(())
}

pub(crate) fn find(named: &Path) -> Result<(PathBuf, OpenObjects), Failure> {
    Ok((named.to_owned(), OpenObjects))
}

/// A type without values.
#[derive(Debug)]
pub(crate) struct Target;

impl Target {
    pub(crate) fn create(named: &Path, _: bool, _: u64) -> Result<Target, Failure> {
        Err(only_files(named))
    }

    pub(crate) fn finish(self) -> Result<(), Failure> {
        Ok(())
    }
}

impl std::io::Write for Target {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
