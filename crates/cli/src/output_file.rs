//! Writing a command's printed output to a file instead of standard output.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf, absolute};

use proto_splitter::Error;
use proto_splitter::atomic::{AtomicFile, MadeFrom};
use proto_splitter::directory::MODEL_STEM;

use crate::Exit;
use crate::apart;
use crate::args::{Command, OutputFileArgs};
use crate::display_name;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::{self, CHUNKED, PLAIN, STANDARD, with_extension};

/// Runs a command that prints a report. With `-o FILE`, the report is written to the file, which
/// appears once it is complete.
pub(crate) fn run(
    command: &Command,
    output: &mut Output<'_>,
    work: impl FnOnce(&mut Output<'_>) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let Some((target, force, read)) = target(command) else {
        return work(output);
    };
    let is_hashed = matches!(command, Command::Verify(args) if args.signature.is_some());
    for read in &read {
        check_apart(read, target, is_hashed)?;
    }
    let failed = |error: Error| Failure::of(target, &error);
    let create = |made_from: &MadeFrom| AtomicFile::create(target, made_from, force);
    let named = made_from(read.iter().copied(), &[]);
    named.check_apart(target).map_err(failed)?;
    // The command may read further files, which aren't known yet.
    let mut file = create(&MadeFrom::Private).map_err(failed)?;
    let mut buffered = BufWriter::new(file.as_file_mut());
    let (exit, opened) = {
        let mut printing = output.for_file(&mut buffered, target);
        (work(&mut printing)?, printing.read_files().to_vec())
    };
    let io = |error: io::Error| Failure::io(target, &error);
    buffered.flush().map_err(io)?;
    drop(buffered);
    let made_from = made_from(read.iter().copied(), &opened);
    // The file gets the mode of a new file that is made from all of these files.
    let like = create(&made_from).map_err(failed)?;
    let like = like.as_file().metadata().map_err(io)?;
    let permitted = file.as_file().set_permissions(like.permissions());
    permitted.map_err(io)?;
    file.commit().map_err(failed)?;
    Ok(exit)
}

/// Returns the file given by `-o`, a flag that is true if this file may be overwritten, and the
/// files that the command reads. Returns `None` for standard output, or for a command that doesn't
/// print a report.
fn target(command: &Command) -> Option<(&Path, bool, Vec<&Path>)> {
    let (printed, read): (&OutputFileArgs, Vec<&PathBuf>) = match command {
        Command::Verify(args) => {
            let others = args.against.iter().chain(&args.signature);
            let read = args.file.iter().chain(others).chain(&args.key);
            (&args.output_file, read.collect())
        }
        Command::Info(args) => (&args.output_file, vec![&args.file]),
        Command::Ls(args) => (&args.output_file, vec![&args.file]),
        Command::Layout(args) => (&args.output_file, vec![&args.file]),
        Command::Tensors(args) => (&args.output_file, vec![&args.file]),
        Command::Fingerprint(args) => (&args.output_file, vec![&args.folder]),
        Command::Diff(args) => (&args.output_file, vec![&args.first, &args.second]),
        Command::Tree(args) => {
            let target = place::target(args.output.as_deref())?;
            let read = [Some(args.file.as_path()), args.diff.as_deref()];
            return Some((target, args.force, read.into_iter().flatten().collect()));
        }
        _ => return None,
    };
    let target = place::target(printed.output.as_deref())?;
    let read = read.into_iter().map(|path| path.as_path()).collect();
    Some((target, printed.force, read))
}

/// Returns the files to which the arguments `read` may refer, and the files in `opened`. An
/// argument may be the name of a file, the name without its extension, or a folder that contains a
/// model.
pub(crate) fn made_from<'p>(
    read: impl IntoIterator<Item = &'p Path>,
    opened: &[PathBuf],
) -> MadeFrom {
    let meant = read.into_iter().flat_map(|path| {
        let model = path.join(MODEL_STEM);
        let [of_prefix, of_folder] =
            [path, &model].map(|stem| [CHUNKED, PLAIN].map(|end| with_extension(stem, end)));
        let other = [path.to_owned()].into_iter().chain(of_prefix);
        other.chain(of_folder)
    });
    let files = meant.chain(opened.iter().cloned());
    MadeFrom::files(files.filter(|path| path.is_file()))
}

/// Fails if the output `target` is the input `read` or, if `read` is a folder, is an existing file
/// inside it. If all files of the folder are hashed, a new file must not be inside it, either, since
/// it would be hashed while it is written.
fn check_apart(read: &Path, target: &Path, is_hashed: bool) -> Result<(), Failure> {
    if read == Path::new(STANDARD) {
        return Ok(());
    }
    apart::check_apart([read], target)?;
    let place = target.canonicalize();
    let place = place.or_else(|error| match absolute(target)?.parent() {
        Some(folder) if is_hashed => folder.canonicalize(),
        _ => Err(error),
    });
    let inside = |folder: &Path| Some(place.ok()?.starts_with(folder));
    let folder = read.canonicalize().ok().filter(|folder| folder.is_dir());
    match folder.and_then(|folder| inside(&folder)) {
        Some(true) => {
            let (target, read) = (display_name::shown(target), display_name::shown(read));
            Err(Failure::usage(format!("{target}: is in the input {read}")))
        }
        _ => Ok(()),
    }
}
