//! `protosplit pieces`.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use proto_splitter::atomic::{MadeFrom, TemporaryFolder, create_new};
use proto_splitter::path::{FieldPath, PathQuery, Step};
use proto_splitter::view::{MessageView, Piece, PieceOptions};
use proto_splitter::{Error, ErrorKind};
use serde::Serialize;

use crate::Exit;
use crate::args::PiecesArgs;
use crate::failure::Failure;
use crate::get;
use crate::harmless::one_line;
use crate::input::{self, Opening};
use crate::output::Output;
use crate::size;

/// How much is gathered for a write to a file.
const GATHER: usize = 256 << 10;

#[derive(Debug, Serialize)]
struct Report {
    input: String,
    output: String,
    pieces: Vec<Written>,
}

#[derive(Debug, Serialize)]
struct Written {
    file: String,
    /// The index of its first element, and how many it has.
    first: u64,
    count: u64,
    bytes: u64,
}

pub(crate) fn run(args: &PiecesArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    input::check_named(&args.output)?;
    let target = &args.output;
    if target.is_dir() && fs::read_dir(target).is_ok_and(|mut all| all.next().is_some())
        || target.is_file()
    {
        let name = target.display();
        return Err(Failure::usage(format!(
            "{name}: there already, and pieces go to a new folder"
        )));
    }
    // Before anything is written: a signal ends what waits for its input.
    let place = input::locate(&args.file, &args.reading.schema.companion)?;
    let input = Opening::of(&args.reading, output.objects())
        .progress(output.writing("writing"))
        .open_at(place)?;
    input.check_message()?;
    let failed = |error: &Error| Failure::of(input.file(), error);
    let query = PathQuery::parse(&args.field, input.descriptor())
        .map_err(|error| get::failure(&input, &args.field, &error).into_usage())?;
    let wanted = PieceOptions::new()
        .max_size(args.max_size.unwrap_or(u64::MAX))
        .max_count(args.count.unwrap_or(u64::MAX))
        .with_rest(args.with_rest);
    let view = input.typed_view().map_err(|error| failed(&error))?;
    let field = field(&view, &query).map_err(|error| failed(&error))?;

    // The folder appears complete or not at all.
    let temporary =
        TemporaryFolder::beside(target, None).map_err(|error| Failure::io(target, &error))?;
    let mut pieces = view
        .pieces(&field, &wanted)
        .map_err(|error| failed(&error))?;
    let made_from = MadeFrom::files(input.files());
    let mut written = Vec::new();
    while let Some(piece) = pieces.next().transpose().map_err(|error| failed(&error))? {
        let name = format!("{:05}.pb", written.len() + 1);
        let path = temporary.path().join(&name);
        let mut write = || -> Result<(), Error> {
            let file = create_new(&path, &made_from)?;
            let mut file = BufWriter::with_capacity(GATHER, file);
            pieces.write_to(&mut file)?;
            file.flush()?;
            Ok(file.get_ref().sync_all()?)
        };
        write().map_err(|error| match error.kind() {
            ErrorKind::Io => Failure::usage(format!("{}: {error}", target.join(&name).display())),
            _ => failed(&error),
        })?;
        written.push(Written::new(target.join(name), piece));
    }
    if written.is_empty() {
        let message = format!("{}: it has no {}", input::shown(input.file()), args.field);
        return Err(Failure::bad(message));
    }
    open_to_others(temporary.path()).map_err(|error| Failure::io(target, &error))?;
    fs::rename(temporary.path(), target).map_err(|error| Failure::io(target, &error))?;
    temporary.keep();
    let report = Report {
        input: input::shown(input.file()),
        output: target.display().to_string(),
        pieces: written,
    };
    output.done(args.json, &report, |report, _| report.text())?;
    Ok(Exit::Done)
}

/// The field that is named. The way there may be said by names, as in any path.
fn field(view: &MessageView<'_>, query: &PathQuery) -> Result<FieldPath, Error> {
    if let Some(path) = query.as_path() {
        return Ok(path);
    }
    // A query leads to values, and so to the first element of the field.
    let first = PathQuery::parse(&format!("{}[0]", query.as_str()), view.descriptor())?;
    let mut path = get::find_one(view, &first)?;
    if let Some(step) = path.pop() {
        path.push(Step::field(step.field.0));
    }
    Ok(path)
}

/// A temporary folder is its owner's alone; what stays has the permissions of any other.
#[cfg(unix)]
fn open_to_others(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> std::io::Result<()> {
    Ok(())
}

impl Written {
    fn new(file: PathBuf, piece: Piece) -> Self {
        Written {
            file: file.display().to_string(),
            first: piece.first,
            count: piece.count,
            bytes: piece.size,
        }
    }
}

impl Report {
    fn text(&self) -> String {
        let (input, output) = (one_line(&self.input), one_line(&self.output));
        let count: u64 = self.pieces.iter().map(|piece| piece.count).sum();
        let largest = self.pieces.iter().map(|piece| piece.bytes).max();
        let pieces = size::count(self.pieces.len(), "piece");
        let largest = size::show(largest.unwrap_or(0));
        format!("{output}: {pieces} of {input} with {count} elements, the largest of {largest}\n")
    }
}
