//! Writing to standard output and standard error, with rules that apply to all output.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use proto_splitter::SaveOptions;
use proto_splitter::progress::Progress;
use serde::Serialize;

use crate::Exit;
use crate::apart::check_apart;
use crate::args::{Cli, ProgressMode};
use crate::display_name::{by_given_names, shown};
use crate::failure::{Failure, is_records};
use crate::interrupt::Interrupt;
use crate::open_objects::OpenObjects;
use crate::progress::ProgressLine;
use crate::sanitize::{self, one_line};
use crate::terminal::Terminal;

/// Size, in bytes, at which the next part of a long JSON list is printed.
const PIECE: usize = 64 << 10;

/// The destination of a command's results, notes and errors.
pub(crate) struct Output<'a> {
    stdout: &'a mut dyn Write,
    stderr: &'a mut dyn Write,
    /// True once the reader of the results has closed the pipe.
    closed: bool,
    /// True if a result is incomplete because its reader closed the pipe.
    abandoned: bool,
    /// Failure, except for a closed pipe, that left a result incomplete; `None` if there is none.
    failed: Option<Failure>,
    terminal: Terminal,
    interrupt: Interrupt,
    /// Results that are held back until the outputs are in the store; `None` to print them at once.
    held: Option<Vec<u8>>,
    /// True to omit notes and reports of success.
    quiet: bool,
    line: ProgressLine,
    /// Objects in stores that the command reads without a local copy.
    objects: OpenObjects,
    /// Files that the results are made from, as far as they are known.
    read: Vec<PathBuf>,
    /// File that the results are written to; `None` for standard output.
    target: Option<PathBuf>,
}

impl<'a> Output<'a> {
    pub(crate) fn new(stdout: &'a mut dyn Write, stderr: &'a mut dyn Write) -> Self {
        Output {
            stdout,
            stderr,
            closed: false,
            abandoned: false,
            failed: None,
            terminal: Terminal::none(),
            interrupt: Interrupt::new(),
            held: None,
            quiet: false,
            line: ProgressLine::default(),
            objects: OpenObjects::default(),
            read: Vec::new(),
            target: None,
        }
    }

    pub(crate) fn on(mut self, terminal: Terminal) -> Self {
        self.terminal = terminal;
        self
    }

    pub(crate) fn until(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = interrupt.clone();
        self
    }

    /// Returns a copy of this output that writes results to `file`, which is later moved to `to`.
    pub(crate) fn for_file<'b>(&'b mut self, file: &'b mut dyn Write, to: &Path) -> Output<'b> {
        Output {
            interrupt: self.interrupt.clone(),
            quiet: self.quiet,
            line: self.line.clone(),
            objects: self.objects.clone(),
            target: Some(to.to_owned()),
            ..Output::new(file, &mut *self.stderr)
        }
    }

    /// Returns true if a result is incomplete because its reader closed the pipe. That isn't a
    /// failure.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Removes and returns the failure that left a result incomplete, if there is one.
    pub(crate) fn failure(&mut self) -> Option<Failure> {
        self.failed.take()
    }

    /// Applies the command's options `--quiet`, `--verbose` and `--progress`.
    pub(crate) fn be_as(&mut self, cli: &Cli) {
        self.quiet = cli.quiet;
        // With `-v`, stages are printed instead of the progress line.
        let shown = match cli.progress {
            _ if cli.quiet => ProgressMode::Never,
            ProgressMode::Auto if cli.verbose > 0 => ProgressMode::Never,
            shown => shown,
        };
        self.line = ProgressLine::new(shown);
    }

    /// Returns a progress listener for work that only reads. There are no files to clean up, so an
    /// interrupt ends the process at once.
    pub(crate) fn reading(&self, doing: &'static str) -> Progress {
        self.line.bytes(doing)
    }

    /// Returns a progress listener for work that writes files. If the command is interrupted, the
    /// listener cancels the work, so that no incomplete files are left.
    pub(crate) fn writing(&self, doing: &'static str) -> Progress {
        self.line.bytes(doing).cancelled_by(self.interrupt.heed())
    }

    /// Returns a progress listener that shows nothing, but cancels the work if the command is
    /// interrupted.
    pub(crate) fn interruptible(&self) -> Progress {
        Progress::none().cancelled_by(self.interrupt.heed())
    }

    /// Returns the options for saving a SavedModel's folder, which copies its files.
    pub(crate) fn saving(&self, keep_fingerprint: bool) -> SaveOptions {
        SaveOptions::new()
            .keep_fingerprint(keep_fingerprint)
            .on_copy(self.line.copies())
            .progress(self.interruptible())
    }

    /// Returns the terminal that results are printed to, if there is one.
    pub(crate) fn terminal(&self) -> Terminal {
        self.terminal
    }

    /// Returns the maximum width of printed lines, in columns; `None` if unlimited.
    pub(crate) fn width(&self) -> Option<usize> {
        self.terminal.width()
    }

    /// Returns the objects in stores that the command reads without a local copy.
    pub(crate) fn objects(&self) -> &OpenObjects {
        &self.objects
    }

    /// Sets the objects in stores that the command reads without a local copy.
    #[cfg(feature = "remote")]
    pub(crate) fn read_there(&mut self, objects: OpenObjects) {
        self.objects = objects;
    }

    /// Adds files that the results are made from. Fails if the results are written to one of them.
    pub(crate) fn reads<P: AsRef<Path>>(
        &mut self,
        files: impl IntoIterator<Item = P>,
    ) -> Result<(), Failure> {
        let before = self.read.len();
        let files = files.into_iter().map(|file| file.as_ref().to_owned());
        self.read.extend(files);
        match &self.target {
            Some(target) => check_apart(&self.read[before..], target),
            None => Ok(()),
        }
    }

    /// Fails if the results would replace a record file. Call this if the input is in chunks and
    /// its other files may be unknown, since the record file may be one of them.
    pub(crate) fn keeps_records(&self) -> Result<(), Failure> {
        match &self.target {
            Some(target) if is_records(target) => Err(Failure::usage(format!(
                "refusing to overwrite {}: a record file, which may belong to the input",
                shown(target)
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the files that the results are made from, as far as they are known.
    pub(crate) fn read_files(&self) -> &[PathBuf] {
        &self.read
    }

    /// Holds results back until [`release`](Self::release) is called.
    #[cfg(feature = "remote")]
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Prints the results that were held back.
    #[cfg(feature = "remote")]
    pub(crate) fn release(&mut self) -> Result<(), Failure> {
        match self.held.take() {
            Some(held) => self.write_out(|stdout| stdout.write_all(&held)),
            None => Ok(()),
        }
    }

    /// Prints part of a result unchanged.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Failure> {
        self.write_out(|stdout| stdout.write_all(text.as_bytes()))
    }

    /// Prints a report as one line of JSON if `json` is true, and otherwise as text. `text` formats
    /// the report; its second argument is the maximum width of lines, in columns.
    pub(crate) fn report<R: Serialize>(
        &mut self,
        json: bool,
        report: &R,
        text: impl FnOnce(&R, Option<usize>) -> String,
    ) -> Result<Exit, Failure> {
        if json {
            self.json(report)?;
        } else {
            let width = self.width();
            self.text(&text(report, width))?;
        }
        Ok(Exit::Done)
    }

    /// Prints a report that is formatted as text, in whole lines.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.print(&sanitize::lines(&by_given_names(text)))
    }

    /// Prints a report of success. With `--quiet`, prints it only if JSON is requested.
    pub(crate) fn done<R: Serialize>(
        &mut self,
        json: bool,
        report: &R,
        text: impl FnOnce(&R, Option<usize>) -> String,
    ) -> Result<Exit, Failure> {
        if self.quiet && !json {
            Ok(Exit::Done)
        } else {
            self.report(json, report, text)
        }
    }

    /// Prints a report with [`done`](Self::done) if it is good, and otherwise, even with `--quiet`,
    /// with [`report`](Self::report). Returns whether it is good as the exit status.
    pub(crate) fn verdict<R: Serialize>(
        &mut self,
        is_good: bool,
        json: bool,
        report: &R,
        text: impl FnOnce(&R, Option<usize>) -> String,
    ) -> Result<Exit, Failure> {
        if is_good {
            self.done(json, report, text)
        } else {
            self.report(json, report, text)?;
            Ok(Exit::Bad)
        }
    }

    /// Prints a report as one line of JSON.
    pub(crate) fn json(&mut self, report: &impl Serialize) -> Result<(), Failure> {
        let json = to_json(report)?;
        self.write_out(|stdout| {
            stdout.write_all(json.as_bytes())?;
            stdout.write_all(b"\n")
        })
    }

    /// Prints a report with a list that may be too long for memory, as one line of JSON. `report`
    /// has all fields except the list, which is the last field and has the name `name`. `each`
    /// yields the list's elements.
    pub(crate) fn json_with_list<R: Serialize, V: Serialize>(
        &mut self,
        report: &R,
        name: &str,
        each: impl FnOnce(&mut dyn FnMut(V) -> Result<(), Failure>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let fields = to_json(report)?;
        let fields = fields.strip_suffix('}').unwrap_or(&fields);
        let mut piece = format!("{fields},{}:[", to_json(&name)?);
        let mut comma = "";
        each(&mut |value| {
            piece.push_str(comma);
            piece.push_str(&to_json(&value)?);
            comma = ",";
            if piece.len() < PIECE {
                return Ok(());
            }
            self.print(&std::mem::take(&mut piece))
        })?;
        self.print(&format!("{piece}]}}\n"))
    }

    /// Prints a note on one line, unless `--quiet` was given.
    pub(crate) fn note(&mut self, message: impl std::fmt::Display) {
        if !self.quiet {
            self.error(message);
        }
    }

    /// Prints an error on one line.
    pub(crate) fn error(&mut self, message: impl std::fmt::Display) {
        self.line.clear();
        // If standard error fails, the failure can't be reported.
        let _ = writeln!(
            self.stderr,
            "protosplit: {}",
            without_numbers(&sanitize::message(&by_given_names(&message.to_string())))
        );
    }

    /// Prints the failure that ended a command, and returns its exit status. If the command's
    /// results are complete, return this status instead of the failure: with `-o`, the results of a
    /// command that returns a failure are discarded.
    pub(crate) fn fail(&mut self, failure: &Failure) -> Exit {
        self.error(failure.message());
        failure.exit()
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.write_out(|stdout| stdout.flush())
    }

    /// Clears the progress line if results will be printed to the same terminal.
    fn make_room(&self) {
        if self.terminal.is_there() {
            self.line.end();
        }
    }

    fn write_out(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.make_room();
        if self.closed {
            return Ok(());
        }
        if let Some(held) = &mut self.held {
            return write(held).map_err(|error| refused(&error));
        }
        match write(self.stdout) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            result => result.map_err(|error| refused(&error)),
        }
    }
}

/// Writes the bytes of a result of any size. Fails once the reader has closed the pipe.
impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.make_room();
        let written = self.stdout.write(bytes);
        match &written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                self.abandoned = true;
            }
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                self.failed = Some(refused(error));
            }
            _ => {}
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        // Standard output is flushed when the command ends.
        Ok(())
    }
}

/// Returns a value as JSON, in which characters that a terminal interprets are escaped.
fn to_json(value: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(value).map_err(|error| refused(&error.into()))?;
    Ok(sanitize::json(&by_given_names(&json)).into_owned())
}

fn refused(error: &io::Error) -> Failure {
    Failure::usage(format!("standard output: {error}"))
}

/// Removes the numbers of system errors from a message, since a description precedes each number.
fn without_numbers(text: &str) -> String {
    let mut pieces = text.split(" (os error ");
    let mut said = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let behind = piece.trim_start_matches(|c: char| c.is_ascii_digit());
        said.push_str(behind.strip_prefix(')').unwrap_or(behind));
    }
    said
}

/// Formats a checksum as eight hexadecimal digits.
pub(crate) fn hex(crc32c: u32) -> String {
    format!("{crc32c:08x}")
}

/// Returns the text that represents a path in a table. For the empty path, this is `.`.
pub(crate) fn shown_path(path: &str) -> String {
    if path.is_empty() {
        ".".to_owned()
    } else {
        one_line(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Refusing(ErrorKind);

    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_error_and_a_full_disk_is_one() {
        let (mut gone, mut full) = (
            Refusing(ErrorKind::BrokenPipe),
            Refusing(ErrorKind::StorageFull),
        );
        let mut stderr = Vec::new();
        let mut output = Output::new(&mut gone, &mut stderr);
        assert!(output.print("a").is_ok() && output.json(&1).is_ok());
        let mut output = Output::new(&mut full, &mut stderr);
        assert!(
            output
                .json(&1)
                .unwrap_err()
                .message()
                .starts_with("standard output: ")
        );
    }

    #[test]
    fn a_result_that_nobody_reads_is_left_unfinished() {
        let (mut gone, mut stderr) = (Refusing(ErrorKind::BrokenPipe), Vec::new());
        let mut output = Output::new(&mut gone, &mut stderr);
        let failed = output.write(b"a").unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::BrokenPipe);
        assert!(output.is_abandoned() && output.print("b").is_ok());
    }

    #[test]
    fn a_result_that_cannot_be_written_is_a_failure_of_standard_output() {
        let (mut full, mut stderr) = (Refusing(ErrorKind::StorageFull), Vec::new());
        let mut output = Output::new(&mut full, &mut stderr);
        assert!(output.write(b"a").is_err() && !output.is_abandoned());
        let failure = output.failure().unwrap();
        assert!(failure.message().starts_with("standard output: "));
        assert!(output.failure().is_none());
    }

    #[test]
    fn an_error_of_the_system_is_said_in_words() {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let missing = io::Error::from_raw_os_error(2);
        Output::new(&mut stdout, &mut stderr).error(format!("a: {missing}: b"));
        let said = String::from_utf8(stderr).unwrap();
        assert!(
            said.starts_with("protosplit: a: ") && said.ends_with(": b\n"),
            "{said}"
        );
        assert!(!said.contains("os error"), "{said}");
    }

    #[test]
    fn a_note_is_one_line_whatever_is_in_it() {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        Output::new(&mut stdout, &mut stderr).note("a\nb\x1b[2J\u{85}c\n");
        assert_eq!(
            String::from_utf8(stderr).unwrap(),
            "protosplit: a\\nb\\u{1b}[2J\\u{85}c\n"
        );
    }
}
