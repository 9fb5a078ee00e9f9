//! The report of `protosplit split`.

use std::path::{Path, PathBuf};

use proto_splitter::split::{Source, SplitPlan, Written, WrittenChunk, WrittenFile, WrittenStream};
use serde::Serialize;

use crate::args::SplitArgs;
use crate::display_name::shown;
use crate::output::{Output, shown_path};
use crate::size;
use crate::table::{Align, Table};

/// The report of a split or of a dry run, as printed with `--json`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// Path of the output file; `None` for a dry run without an output.
    pub(super) output: Option<String>,
    pub(super) split: bool,
    byte_exact: bool,
    message: String,
    source_bytes: u64,
    output_bytes: Option<u64>,
    chunks: Vec<Chunk>,
    dry_run: bool,
    /// False if there was nothing to write: there is no output, or the output is the input file
    /// itself.
    written: bool,
    /// Path of the removed file that had the output's prefix, but the extension `.pb` instead of
    /// `.cpb` or vice versa; `None` if no such file was removed.
    pub(super) removed: Option<String>,
    /// Paths of the removed files of an earlier split, except for the file in `removed`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) removed_files: Vec<String>,
    /// Files with chunks, except the main file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<OtherFile>,
    /// Merkle root of the chunks; `None` if it wasn't requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    merkle_root: Option<String>,
}

/// A file with chunks, which isn't the main file.
#[derive(Debug, Serialize)]
struct OtherFile {
    file: String,
    bytes: u64,
    chunks: usize,
}

impl From<&WrittenFile> for OtherFile {
    fn from(file: &WrittenFile) -> Self {
        OtherFile {
            file: shown(&file.path),
            bytes: file.size,
            chunks: file.chunks,
        }
    }
}

#[derive(Debug, Serialize)]
struct Chunk {
    index: u64,
    kind: String,
    path: String,
    size: u64,
    stored_size: Option<u64>,
    compression: Option<String>,
    /// Number of the file that contains the chunk: its index in `files` plus 1; `None` for the main
    /// file.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<usize>,
    position: Option<u64>,
}

impl Chunk {
    fn written(chunks: &[WrittenChunk], source: &Source) -> Vec<Chunk> {
        let chunks = chunks.iter().map(|chunk| Chunk {
            index: chunk.index.get(),
            kind: chunk.kind.to_string(),
            path: chunk.path.display(Some(source.descriptor())),
            size: chunk.size,
            stored_size: Some(chunk.stored_size),
            compression: Some(chunk.compression.to_string()),
            file: Some(chunk.file).filter(|&file| file > 0),
            position: Some(chunk.position.numeric()),
        });
        chunks.collect()
    }
}

impl Report {
    /// Returns the report of a dry run. `written` is false if there is no output, or the output is
    /// the input file itself.
    pub(super) fn of_plan(
        plan: &SplitPlan,
        source: &Source,
        output: Option<PathBuf>,
        written: bool,
    ) -> Self {
        let chunks = plan.chunks().iter().zip(0..).map(|(chunk, index)| Chunk {
            index,
            kind: chunk.kind().to_string(),
            path: chunk.path().display(Some(source.descriptor())),
            size: chunk.size(),
            stored_size: None,
            compression: None,
            file: None,
            position: None,
        });
        let chunks = if plan.is_split() {
            chunks.collect()
        } else {
            Vec::new()
        };
        Report {
            output: output.as_deref().map(shown),
            dry_run: true,
            written,
            ..Report::new(source, plan.is_split(), plan.byte_exact(), chunks)
        }
    }

    /// Returns the report of a split. `changed` is false if the output is the input file itself.
    pub(super) fn of_written(written: &Written, source: &Source, changed: bool) -> Self {
        let chunks = Chunk::written(&written.chunks, source);
        Report {
            output: Some(shown(&written.path)),
            output_bytes: Some(written.output_size),
            written: written.is_split || changed,
            removed: written.removed.as_deref().map(shown),
            removed_files: written
                .removed_files
                .iter()
                .map(|file| shown(file))
                .collect(),
            files: written.files.iter().map(OtherFile::from).collect(),
            merkle_root: written.merkle_root.map(|root| root.to_string()),
            ..Report::new(source, written.is_split, written.byte_exact, chunks)
        }
    }

    /// Returns the report of a split to the object `output` in a store.
    pub(super) fn of_object(written: &WrittenStream, source: &Source, output: &Path) -> Self {
        let chunks = Chunk::written(&written.chunks, source);
        Report {
            output: Some(shown(output)),
            output_bytes: Some(written.output_size),
            merkle_root: written.merkle_root.map(|root| root.to_string()),
            ..Report::new(source, written.is_split, written.byte_exact, chunks)
        }
    }

    /// Returns the report of a split whose output isn't known yet.
    fn new(source: &Source, split: bool, byte_exact: bool, chunks: Vec<Chunk>) -> Self {
        Report {
            split,
            byte_exact,
            message: source.descriptor().full_name().to_owned(),
            source_bytes: source.size(),
            chunks,
            written: true,
            ..Report::default()
        }
    }

    pub(super) fn text(&self, args: &SplitArgs) -> String {
        let name = self.output.clone().unwrap_or_else(|| shown(args.input()));
        let source = size::show(self.source_bytes);
        if !self.split {
            let within = within(self.source_bytes, args);
            let what = match (self.dry_run, self.written) {
                (_, false) => "nothing to do",
                (true, true) => "would be copied",
                (false, true) => "copied",
            };
            return format!("{name}: {within}: {what}\n");
        }
        let exact = if self.byte_exact {
            "byte-exact"
        } else {
            "equal as a message, not byte-exact"
        };
        let chunks = size::count(self.chunks.len(), "chunk");
        match self.output_bytes {
            Some(bytes) => {
                let files = match self.files.len() {
                    0 => "a file of".to_owned(),
                    others => format!("{} files, together", others + 1),
                };
                let root = self.merkle_root.as_ref();
                let root = root.map(|root| format!("{name}: Merkle root {root}\n"));
                format!(
                    "{name}: {source} in {chunks}, {files} {}; a merge is {exact}\n{}",
                    size::show(bytes),
                    root.unwrap_or_default()
                )
            }
            None => format!(
                "{}\n{name}: {source} in {chunks}; a merge would be {exact}\n",
                self.table()
            ),
        }
    }

    fn table(&self) -> String {
        let mut table = Table::new([
            ("index", Align::Right),
            ("kind", Align::Left),
            ("size", Align::Right),
            ("path", Align::Left),
        ]);
        for chunk in &self.chunks {
            let Chunk {
                index,
                kind,
                path,
                size,
                ..
            } = chunk;
            table.row([
                index.to_string(),
                kind.clone(),
                size::show(*size),
                shown_path(path),
            ]);
        }
        table.render()
    }
}

/// Returns the reason why a message of `bytes` bytes isn't split.
pub(super) fn within(bytes: u64, args: &SplitArgs) -> String {
    let (bytes, most) = (size::show(bytes), size::show(args.max_chunk_size));
    format!("{bytes}, within the maximum chunk size of {most}")
}

/// Prints a note about files from an earlier split that were removed.
pub(crate) fn note_removed<P: AsRef<Path>>(files: &[P], output: &mut Output<'_>) {
    for removed in files {
        let removed = shown(removed.as_ref());
        output.note(format_args!(
            "removed {removed}, which belonged to an earlier split"
        ));
    }
}
