//! `protosplit ls`.

use serde::Serialize;

use crate::Exit;
use crate::archive;
use crate::args::LsArgs;
use crate::failure::Failure;
use crate::info::{self, Chunk, OtherFile, chunks_table, files_table};
use crate::input::{self, Form, Input};
use crate::output::Output;
use crate::remote;
use crate::source;
use crate::types::Types;

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
    let input = input::find_with(&args.file, &args.schema.companion)?.looked_at();
    if let Some(opened) = source::special(
        &input,
        &args.schema,
        args.parts.limits(),
        output.reading("reading"),
    )? {
        return archive::ls(&input, &opened, args.json, output);
    }
    let report = match input.form {
        Form::Plain => whole(&input)?,
        Form::Chunked => chunks(&input, args)?,
    };
    output.report(args.json, &report, Report::text)?;
    Ok(Exit::Done)
}

fn chunks(input: &Input, args: &LsArgs) -> Result<Report, Failure> {
    let failed = |error| Failure::of(&input.file, &error);
    let file = source::chunked(input, &args.parts.limits())?;
    let known = Types::load(&args.schema)?.of_chunked(&input.file, &file)?;
    // The header of every chunk of an object is a request.
    let summaries = if remote::is_url(&input.file) {
        file.listed()
    } else {
        file.summaries().map_err(failed)?
    };
    let chunks = summaries
        .into_iter()
        .map(|summary| Listed::of(info::chunk(summary, known.as_ref())));
    Ok(Report {
        file: crate::input::shown(&input.file),
        split: true,
        file_bytes: file.record_file().size(),
        files: OtherFile::all_of(&file),
        chunks: chunks.collect(),
    })
}

/// A message in one piece, as if it were a chunk.
fn whole(input: &Input) -> Result<Report, Failure> {
    let metadata = std::fs::metadata(&input.file);
    let bytes = metadata
        .map_err(|error| Failure::io(&input.file, &error))?
        .len();
    Ok(Report {
        file: crate::input::shown(&input.file),
        split: false,
        file_bytes: bytes,
        files: Vec::new(),
        chunks: vec![Listed::of(Chunk::whole(bytes))],
    })
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
