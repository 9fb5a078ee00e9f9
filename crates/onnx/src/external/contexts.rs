//! The contents of compiled nodes (onnxruntime's `EPContext`), each of which is moved to a separate
//! file.

use std::ops::Range;

use proto_splitter_core::progress::Progress;
use proto_splitter_core::{MessageReader, Result};

use super::leaving::{DataFile, numbered, stem_and_ending};
use super::same;

/// Suffix and extension of the names of content files: `model_ctx.bin`, or
/// `model_ctx-00001-of-00002.bin`.
pub(super) const ENDING: (&str, &str) = ("_ctx", ".bin");

/// The compiled-node contents that are moved out of a model, and their files.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    /// Contents that are moved out, in the order of their nodes in the model.
    pub(super) leaving: Vec<LeavingContext>,
    pub(super) files: Vec<DataFile>,
}

/// The content of a compiled node, which is moved out of the model.
#[derive(Debug)]
pub(super) struct LeavingContext {
    /// Byte range of the content in the model.
    pub(super) range: Range<u64>,
    pub(super) file: usize,
    /// True if the content of an earlier node has the same bytes, which are written only once.
    pub(super) is_copy: bool,
}

impl Contexts {
    /// Adds the content at `range`, which must follow all contents added before.
    pub(super) fn add(&mut self, range: Range<u64>) {
        self.leaving.push(LeavingContext {
            range,
            file: 0,
            is_copy: false,
        });
    }

    /// Returns the index of the file for the content that begins at `start` in the model; `None` if
    /// the content stays in the model.
    pub(super) fn file_of(&self, start: u64) -> Option<usize> {
        let leaving = &self.leaving;
        let found = leaving.binary_search_by_key(&start, |one| one.range.start);
        Some(leaving.get(found.ok()?)?.file)
    }

    /// Assigns a file to the content of each node. Nodes with equal content share a file.
    pub(super) fn lay_out(
        &mut self,
        model: &MessageReader,
        name: &str,
        progress: &Progress,
    ) -> Result<()> {
        let spans: Vec<_> = self
            .leaving
            .iter()
            .map(|one| Some(one.range.clone()))
            .collect();
        let same = same::find(model, &spans, progress)?;
        let mut sizes = Vec::new();
        for (at, first) in same.into_iter().enumerate() {
            let file = first.and_then(|first| Some(self.leaving.get(first)?.file));
            let Some(one) = self.leaving.get_mut(at) else {
                continue;
            };
            (one.file, one.is_copy) = (file.unwrap_or(sizes.len()), file.is_some());
            if file.is_none() {
                sizes.push(one.range.end - one.range.start);
            }
        }
        let count = sizes.len();
        let (context, extension) = ENDING;
        let stem = format!("{}{context}", stem_and_ending(name).0);
        let named = sizes.into_iter().enumerate().map(|(at, size)| DataFile {
            name: numbered(&stem, extension, at, count),
            head: Vec::new(),
            size,
        });
        self.files = named.collect();
        Ok(())
    }
}
