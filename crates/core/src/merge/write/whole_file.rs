//! Planning and executing the merge of all chunks of an open file, to a sink or to a file.

use std::io::Write;

use record_file::ReadAt;

use super::chunk_cache::with_plan;
use super::execute::{Merged, execute, execute_to_file};
use crate::Result;
use crate::io::{AtomicFile, at_target};
use crate::merge::read::record_store::RecordStore;
use crate::merge::read_options::ReadOptions;

/// Merges a message's chunks from open files into the file `out`, on several threads, and commits
/// `out`.
pub(crate) fn merge_to_file<S: ReadAt>(
    store: &RecordStore<S>,
    out: AtomicFile,
    options: &ReadOptions,
) -> Result<Merged> {
    let merged = with_plan(store.trailer(), store, options, |chunks, plan| {
        out.check_space(plan.total_len())?;
        execute_to_file(store.trailer(), chunks, plan, out.as_file(), options)
            .map_err(|error| at_target(error, out.target()))
    })?;
    options.progress.check()?;
    out.commit()?;
    Ok(merged)
}

/// Merges a message's chunks from open files into `sink`.
pub(crate) fn merge_to_sink<S: ReadAt>(
    store: &RecordStore<S>,
    sink: &mut dyn Write,
    options: &ReadOptions,
) -> Result<Merged> {
    let trailer = store.trailer();
    with_plan(trailer, store, options, |chunks, plan| {
        execute(trailer, chunks, plan, sink, options)
    })
}
