//! Merging the intact chunks of a damaged file.

use std::path::Path;

use proto_splitter::Error;
use proto_splitter::formats::ALL;
use proto_splitter::merge::ReadOptions;
use proto_splitter::ops::{LostPart, Salvage, SalvageOptions, SalvageReport};
use proto_splitter::progress::Progress;

use crate::Exit;
use crate::apart::check_apart;
use crate::args::MergeArgs;
use crate::display_name::shown;
use crate::failure::Failure;
use crate::output::{Output, shown_path};
use crate::place::{Place, STANDARD};
use crate::sanitize::one_line;
use crate::size;
use crate::types::Types;

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
            "--skip-damaged: {name}: the message isn't in chunks, so there are no checksums to detect damage"
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
    let options = SalvageOptions::new()
        .reading(reading)
        .schemas(types.given().clone())
        .formats(ALL);
    let salvaged = Salvage::open(&place.file, &options).map_err(failed)?;
    let lost = salvaged.lost();
    let is_whole = lost.is_empty();
    if args.output() == Path::new(STANDARD) {
        salvaged.write_to(&mut *output).map_err(failed)?;
        lost.iter().for_each(|lost| output.error(said(lost)));
        return Ok(Exit::of(is_whole));
    }
    check_apart(salvaged.files(), args.output())?;
    let merge = |target: &Path, force: bool| salvaged.write_file(target, force).map_err(failed);
    let (path, mut report) = super::save(args, place.folder.as_deref(), merge, output)?;
    if let Some(path) = path {
        report.output = path;
    }
    output.verdict(is_whole, args.json, &report, |report, _| text(report))
}

fn said(lost: &LostPart) -> String {
    let path = shown_path(&lost.path);
    format!("lost {path}: {}: {}", lost.what, one_line(&lost.why))
}

fn text(report: &SalvageReport) -> String {
    let output = one_line(&shown(&report.output));
    let bytes = size::show(report.output_bytes);
    let lost = match report.lost.len() {
        0 => "nothing is damaged".to_owned(),
        count => format!("{} lost", size::count(count, "place")),
    };
    let mut text = format!("{output}: {bytes}: {lost}\n");
    for lost in &report.lost {
        text.push_str(&format!("  {}\n", said(lost)));
    }
    text
}
