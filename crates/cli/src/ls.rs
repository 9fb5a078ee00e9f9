//! `protosplit ls`.

use serde::Serialize;

use crate::Exit;
use crate::archive;
use crate::args::LsArgs;
use crate::failure::Failure;
use crate::info::{self, Chunk, OtherFile, chunks_table, files_table};
use crate::input::{Chunked, Input, Opening, shown};
use crate::output::Output;
use crate::remote;

#[derive(Debug, Serialize)]
struct Report {
    file: String,
    split: bool,
    /// Of the file itself.
    file_bytes: u64,
    /// The other files that have chunks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<OtherFile>,
    chunks: Vec<Listed>,
}

/// A chunk, and which part of its bytes its record takes.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    chunk: Chunk,
    /// None if other records share its record chunk, it is empty, or its header wasn't read.
    ratio: Option<f64>,
}

pub(crate) fn run(args: &LsArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let input = Opening::of_parts(&args.schema, args.parts, output.objects())
        .looked_at(true)
        .progress(output.reading("reading"))
        .open(&args.file)?;
    if input.is_special() {
        return archive::ls(&input, args.json, output);
    }
    let report = match (input.chunked(), input.plain()) {
        (Some(file), _) => chunks(&input, file)?,
        (None, plain) => whole(&input, plain.map_or(0, |(_, size)| size)),
    };
    output.report(args.json, &report, Report::text)?;
    Ok(Exit::Done)
}

fn chunks(input: &Input, file: &Chunked) -> Result<Report, Failure> {
    let failed = |error| Failure::of(input.file(), &error);
    // The header of every chunk of an object is a request.
    let summaries = if remote::is_url(input.file()) {
        file.listed()
    } else {
        file.summaries().map_err(failed)?
    };
    let chunks = summaries
        .into_iter()
        .map(|summary| Listed::of(info::chunk(summary, input.descriptor())));
    Ok(Report {
        file: shown(input.file()),
        split: true,
        file_bytes: file.record_file().size(),
        files: OtherFile::all_of(file),
        chunks: chunks.collect(),
    })
}

/// A message in one piece, as if it were a chunk.
fn whole(input: &Input, bytes: u64) -> Report {
    Report {
        file: shown(input.file()),
        split: false,
        file_bytes: bytes,
        files: Vec::new(),
        chunks: vec![Listed::of(Chunk::whole(bytes))],
    }
}

impl Listed {
    fn of(chunk: Chunk) -> Self {
        #[allow(
            clippy::cast_precision_loss,
            reason = "rounded to thousandths right after"
        )]
        let ratio = |stored: u64| (stored as f64 * 1000.0 / chunk.size as f64).round() / 1000.0;
        let ratio = chunk.stored_size.filter(|_| chunk.size > 0).map(ratio);
        Listed { chunk, ratio }
    }

    fn percent(&self) -> String {
        match self.ratio {
            Some(ratio) => format!("{:.1}%", ratio * 100.0),
            None => "-".into(),
        }
    }
}

impl Report {
    fn text(&self, width: Option<usize>) -> String {
        let chunks = self.chunks.iter();
        let chunks = chunks.map(|listed| (&listed.chunk, listed.percent()));
        let chunks = chunks_table(chunks, self.files.is_empty(), true, width);
        let files = files_table(self.file_bytes, &self.files, width);
        chunks + &files
    }
}
