//! The `protosplit tensors` command.

use proto_splitter::Error;
use proto_splitter::ops::{TensorEntry, tensors};

use crate::Exit;
use crate::args::TensorsArgs;
use crate::display_name::shown;
use crate::failure::Failure;
use crate::opening::Opening;
use crate::output::Output;
use crate::size;
use crate::table::{Align, BLOCK, Columns, cell};

const COLUMNS: [(&str, Align); 5] = [
    ("size", Align::Right),
    ("type", Align::Left),
    ("shape", Align::Left),
    ("name", Align::Left),
    ("where", Align::Left),
];

/// Maximum number of offsets to print for a LoD level. With `--json`, there is no maximum.
const SHOWN_OFFSETS: usize = 6;

/// Returns a LoD level as text. If there are many offsets, those in the middle are omitted.
fn level(offsets: &[u64]) -> String {
    let mut shown: Vec<String> = offsets.iter().map(u64::to_string).collect();
    if shown.len() > SHOWN_OFFSETS {
        shown.splice(SHOWN_OFFSETS - 2..shown.len() - 1, ["...".to_owned()]);
    }
    format!(" [{}]", shown.join(", "))
}

fn row(tensor: &TensorEntry) -> [String; 5] {
    let sizes: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    let lod = match &tensor.lod[..] {
        [] => String::new(),
        levels => levels
            .iter()
            .fold(" lod".to_owned(), |text, one| text + &level(one)),
    };
    let is_path = tensor.location == tensor.name;
    let location = if is_path { "" } else { &tensor.location };
    [
        size::show(tensor.bytes),
        tensor.dtype.clone(),
        format!("[{}]{lod}", sizes.join(", ")),
        cell(&tensor.name),
        cell(location),
    ]
}

pub(crate) fn run(args: &TensorsArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let input = Opening::of(&args.reading, output.objects())
        .looked_at(true)
        .progress(output.reading("reading"))
        .open(&args.file)?;
    output.reads(input.files())?;
    let failed = |ended: Ended| match ended {
        Ended::Reading(error) => Failure::of(input.path(), &error),
        Ended::Printing(failure) => failure,
    };
    // Tensors are listed twice, in blocks: to measure the columns, and to print the rows. A list of
    // all tensors may be too large, since a model may have millions of them.
    let (mut columns, mut block) = (Columns::new(COLUMNS), Vec::new());
    let mut report = tensors(&input, |tensor| -> Result<(), Ended> {
        if !args.json {
            block.push(row(&tensor));
        }
        if block.len() >= BLOCK {
            columns.widen(&block);
            block.clear();
        }
        Ok(())
    })
    .map_err(failed)?;
    columns.widen(&block);
    block.clear();
    report.file = input.path().to_owned();
    if report.count == 0 && input.archive().is_none() && input.descriptor().is_none() {
        output.note(format_args!(
            "{}: the message's type is unknown: name it with --message TYPE",
            shown(&report.file)
        ));
    }
    if args.json {
        output.json_with_list(&report, "tensors", |print| {
            tensors(&input, |tensor| print(tensor).map_err(Ended::Printing))
                .map(drop)
                .map_err(failed)
        })?;
        return Ok(Exit::Done);
    }
    let summary = size::count(report.count, "tensor");
    if report.count == 0 {
        output.text(&format!("{summary}\n"))?;
        return Ok(Exit::Done);
    }
    output.text(&columns.fit(output.width()))?;
    tensors(&input, |tensor| {
        block.push(row(&tensor));
        if block.len() < BLOCK {
            return Ok(());
        }
        output
            .text(&columns.lines(&mut block))
            .map_err(Ended::Printing)?;
        block.clear();
        Ok(())
    })
    .map_err(failed)?;
    output.text(&columns.lines(&mut block))?;
    output.text(&format!("{summary}, {} in all\n", size::show(report.bytes)))?;
    Ok(Exit::Done)
}

/// An error that ended the listing early.
enum Ended {
    Reading(Error),
    Printing(Failure),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended::Reading(error)
    }
}
