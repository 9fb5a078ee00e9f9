//! Merging the readable part of a damaged file.

use std::path::Path;

use proto_splitter::atomic::{AtomicFile, MadeFrom};
use proto_splitter::directory::{MODEL_STEM, rebuild};
use proto_splitter::edit::{Loss, Salvaged, salvage};
use proto_splitter::formats::ALL;
use proto_splitter::merge::ReadOptions;
use proto_splitter::progress::Progress;
use proto_splitter::{Error, SaveOptions};
use serde::Serialize;

use crate::Exit;
use crate::args::MergeArgs;
use crate::failure::Failure;
use crate::fingerprint::note_refusal;
use crate::harmless::one_line;
use crate::input::{self, PLAIN, Place, STANDARD, shown, with_extension};
use crate::output::{Output, shown_path};
use crate::size;
use crate::types::Types;

#[derive(Debug, Serialize)]
struct Report {
    output: String,
    input: String,
    output_bytes: u64,
    lost: Vec<LostPlace>,
}

/// A missing part of the message.
#[derive(Debug, Serialize)]
struct LostPlace {
    path: String,
    what: String,
    chunk: u64,
    why: String,
}

pub(super) fn run(
    place: Place,
    args: &MergeArgs,
    progress: Progress,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    let failed = |error: Error| Failure::of(&place.file, &error);
    let types = Types::load(&args.reading.schema)?;
    let candidate = place.candidate(output.objects())?;
    if !candidate.is_chunked().map_err(failed)? {
        let name = shown(&place.file);
        return Err(Failure::usage(format!(
            "--skip-damaged: {name}: one message, not in chunks: it has no checksums to tell damage by"
        )));
    }
    let by_name = || {
        let format = ALL.recognize(&candidate)?;
        types.get(format.message_type(&place.file)?)
    };
    let reading = ReadOptions::new()
        .descriptor(types.asked().cloned().or_else(by_name))
        .assume_plain(args.reading.assume_plain)
        .limits(args.reading.limits())
        .threads(args.threads.threads)
        .progress(progress);
    let salvaged = salvage(&place.file, &reading).map_err(failed)?;
    let of_file = || {
        let said = salvaged.file.trailer().message_type()?;
        let known = types.get(said);
        known.or_else(|| salvaged.file.descriptor().ok().flatten())
    };
    let known = reading.descriptor.clone().or_else(of_file);
    let reading = reading.descriptor(known);
    let lost = |loss: &Loss| LostPlace {
        path: loss.path.display(reading.descriptor.as_ref()),
        what: loss.what.to_string(),
        chunk: loss.chunk.get(),
        why: loss.why.clone(),
    };
    let mut report = Report {
        output: args.output().display().to_string(),
        input: shown(&place.file),
        output_bytes: 0,
        lost: salvaged.lost.iter().map(lost).collect(),
    };
    let exit = if report.lost.is_empty() {
        Exit::Done
    } else {
        Exit::Bad
    };
    if args.output() == Path::new(STANDARD) {
        salvaged.file.merge_to(output, &reading).map_err(failed)?;
        report
            .lost
            .iter()
            .for_each(|lost| output.error(lost.text()));
        return Ok(exit);
    }
    input::check_apart(salvaged.file.paths(), args.output())?;
    let merge = |target: &Path, force: bool| {
        write(&salvaged, &reading, &place.file, target, force).map_err(failed)
    };
    let to_file = args.output().extension().is_some_and(|end| end == PLAIN);
    report.output_bytes = match &place.folder {
        Some(folder) if !to_file => {
            let saving = SaveOptions::new()
                .force(args.force)
                .keep_fingerprint(args.keep_fingerprint)
                .on_copy(output.line().copies())
                .progress(output.interruptible());
            let fill = |prefix: &Path| merge(&with_extension(prefix, PLAIN), false);
            let rebuilt = rebuild(folder, args.output(), &saving, fill)?;
            note_refusal(&rebuilt.fingerprint, output);
            let target = with_extension(&args.output().join(MODEL_STEM), PLAIN);
            report.output = target.display().to_string();
            rebuilt.filled
        }
        _ => merge(args.output(), args.force)?,
    };
    match exit {
        Exit::Done => output.done(args.json, &report, |report, _| report.text())?,
        _ => output.report(args.json, &report, |report, _| report.text())?,
    }
    Ok(exit)
}

fn write(
    salvaged: &Salvaged,
    reading: &ReadOptions,
    read: &Path,
    target: &Path,
    force: bool,
) -> Result<u64, Error> {
    let out = AtomicFile::create(target, &MadeFrom::files([read]), force)?;
    let merged = out.write(|mut sink| salvaged.file.merge_to(&mut sink, reading))?;
    Ok(merged.size)
}

impl LostPlace {
    fn text(&self) -> String {
        let path = shown_path(&self.path);
        format!("lost {path}: {}: {}", self.what, one_line(&self.why))
    }
}

impl Report {
    fn text(&self) -> String {
        let (output, bytes) = (one_line(&self.output), size::show(self.output_bytes));
        let lost = match self.lost.len() {
            0 => "nothing is damaged".to_owned(),
            count => format!("{} lost", size::count(count, "place")),
        };
        let mut text = format!("{output}: {bytes}: {lost}\n");
        for lost in &self.lost {
            text.push_str(&format!("  {}\n", lost.text()));
        }
        text
    }
}
