//! A build that reads no objects in stores.

#[allow(
    dead_code,
    reason = "where nothing is copied, inputs alone are of interest"
)]
mod arguments;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto_splitter::container::ChunkedFile;
use proto_splitter::merge::Limits;
use proto_splitter::record_file::ReadAt;

use crate::args::Command;
use crate::failure::Failure;
use crate::output::Output;
use arguments::arguments;

/// The arguments of a command that name what it reads.
pub(crate) fn inputs(command: &mut Command) -> Vec<&mut PathBuf> {
    arguments(command).inputs
}

/// Nothing goes to a store.
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

pub(crate) fn is_url(_: &Path) -> bool {
    false
}

pub(crate) fn chunked(named: &Path, _: &Limits) -> Result<ChunkedFile<Arc<dyn ReadAt>>, Failure> {
    let name = named.display();
    Err(Failure::usage(format!(
        "{name}: this build reads files alone"
    )))
}

/// Never there.
#[derive(Debug)]
pub(crate) struct Target;

impl Target {
    pub(crate) fn create(named: &Path, _: bool, _: u64) -> Result<Target, Failure> {
        let name = named.display();
        Err(Failure::usage(format!(
            "{name}: this build writes files alone"
        )))
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
