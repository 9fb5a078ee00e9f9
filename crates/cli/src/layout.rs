//! The `protosplit layout` command.

mod text;

use proto_splitter::formats::ALL;
use proto_splitter::ops::{LayoutOptions, layout};
use proto_splitter::{Error, ErrorKind, OpenOptions};

use crate::Exit;
use crate::args::{CompanionArgs, LayoutArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::place::{self, Place};

pub(crate) fn run(args: &LayoutArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let place = place::locate(&args.file, &CompanionArgs::default())?;
    let candidate = place.candidate(output.objects())?;
    let options = LayoutOptions::new()
        .parts(args.blocks)
        .open(OpenOptions::new().limits(args.shards.limits()))
        .progress(output.reading("reading"));
    let found = layout(&ALL, &candidate, &options).map_err(|error| failure(&place, &error))?;
    output.reads(found.other_files.iter().map(|other| &other.file))?;
    // If a file is missing or damaged, the list of the input's other files is incomplete.
    output.keeps_records()?;
    // The report is printed even for a damaged file, since it lists the regions before the damage.
    output.report(args.json, &found, text::text)?;
    Ok(match &found.damage {
        Some(damage) => output.fail(&Failure::of(&place.file, damage)),
        None => Exit::Done,
    })
}

fn failure(place: &Place, error: &Error) -> Failure {
    let failure = Failure::of(&place.file, error);
    if error.kind() != ErrorKind::InvalidConfig {
        return failure;
    }
    let message = failure.message();
    Failure::usage(format!("{message}: use `protosplit ls` to list its parts"))
}
