//! The two writers, and what holds for all that is written to them.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;

use proto_splitter::progress::Progress;
use serde::Serialize;

use crate::args::{Cli, Shown};
use crate::display_name::by_given_names;
use crate::failure::Failure;
use crate::harmless::{self, one_line};
use crate::interrupt::Interrupt;
use crate::open_objects::OpenObjects;
use crate::progress::Line;
use crate::terminal::Terminal;

/// Who is told how many bytes are done, and of how many.
pub(crate) type Told = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// How much of a long result is printed at a time.
const PIECE: usize = 64 << 10;

/// Where results and notes go.
pub(crate) struct Output<'a> {
    stdout: &'a mut dyn Write,
    stderr: &'a mut dyn Write,
    /// Nobody reads the results any more.
    closed: bool,
    /// That ended a result that was being written.
    abandoned: bool,
    /// What else ended one.
    failed: Option<Failure>,
    terminal: Terminal,
    interrupt: Interrupt,
    /// A program that is told how far it is, in place of a line on the terminal.
    told: Option<Told>,
    /// What is said once all is where it belongs.
    held: Option<Vec<u8>>,
    /// Only errors are said beside the results.
    quiet: bool,
    line: Line,
    /// What is read where it is.
    objects: OpenObjects,
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
            told: None,
            held: None,
            quiet: false,
            line: Line::default(),
            objects: OpenObjects::default(),
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

    /// The same, for a program that is told how far it is, and may end it at any moment.
    pub(crate) fn telling(mut self, told: Told) -> Self {
        self.told = Some(told);
        self
    }

    /// The same, with results for a file.
    pub(crate) fn for_file<'b>(&'b mut self, file: &'b mut dyn Write) -> Output<'b> {
        Output {
            stdout: file,
            stderr: &mut *self.stderr,
            closed: false,
            abandoned: false,
            failed: None,
            held: None,
            terminal: Terminal::none(),
            interrupt: self.interrupt.clone(),
            told: self.told.clone(),
            quiet: self.quiet,
            line: self.line.clone(),
            objects: self.objects.clone(),
        }
    }

    /// Whether a result was left unfinished because nobody reads it any more, which is not a failure.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Why a result that was being written couldn't be, if that is so.
    pub(crate) fn failure(&mut self) -> Option<Failure> {
        self.failed.take()
    }

    /// Says as much as is asked for, from now on.
    pub(crate) fn be_as(&mut self, cli: &Cli) {
        self.quiet = cli.quiet;
        // What -v tells has lines of its own.
        let shown = match cli.progress {
            _ if cli.quiet => Shown::Never,
            Shown::Auto if cli.verbose > 0 => Shown::Never,
            shown => shown,
        };
        self.line = Line::new(shown);
    }

    /// Shows how far this work is. It may be ended at any moment: it leaves nothing behind.
    pub(crate) fn reading(&self, doing: &'static str) -> Progress {
        match &self.told {
            Some(_) => self.writing(doing),
            None => self.line.bytes(doing),
        }
    }

    /// Shows how far this work is, which writes files and so ends cleanly when it is interrupted.
    pub(crate) fn writing(&self, doing: &'static str) -> Progress {
        let progress = match &self.told {
            Some(told) => {
                let told = Arc::clone(told);
                Progress::new(move |done, of| told(done, of))
            }
            None => self.line.bytes(doing),
        };
        progress.cancelled_by(self.interrupt.heed())
    }

    /// Shows nothing, but may be interrupted: it ends cleanly then.
    pub(crate) fn interruptible(&self) -> Progress {
        Progress::none().cancelled_by(self.interrupt.heed())
    }

    /// The line that shows how far work is.
    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    /// What results are shown on, if that is a terminal.
    pub(crate) fn terminal(&self) -> Terminal {
        self.terminal
    }

    /// The columns that lines have room in; none if they may have any length.
    pub(crate) fn width(&self) -> Option<usize> {
        self.terminal.width()
    }

    /// The objects that the command reads where they are.
    pub(crate) fn objects(&self) -> &OpenObjects {
        &self.objects
    }

    /// Sets which objects the command reads where they are.
    #[cfg(feature = "remote")]
    pub(crate) fn read_there(&mut self, objects: OpenObjects) {
        self.objects = objects;
    }

    /// Keeps results back until they are released.
    #[cfg(feature = "remote")]
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Prints what was kept back.
    #[cfg(feature = "remote")]
    pub(crate) fn release(&mut self) -> Result<(), Failure> {
        match self.held.take() {
            Some(held) => self.write_out(|stdout| stdout.write_all(&held)),
            None => Ok(()),
        }
    }

    /// Prints a result as it is.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Failure> {
        self.write_out(|stdout| stdout.write_all(text.as_bytes()))
    }

    /// Prints a report: one line of JSON if that is asked for, else a text in which lines have at
    /// most so many columns.
    pub(crate) fn report<R: Serialize>(
        &mut self,
        json: bool,
        report: &R,
        text: impl FnOnce(&R, Option<usize>) -> String,
    ) -> Result<(), Failure> {
        if json {
            return self.json(report);
        }
        let width = self.width();
        self.text(&text(report, width))
    }

    /// Prints whole lines of a report.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.print(&harmless::lines(&by_given_names(text)))
    }

    /// Reports that something was done or is in order: what nobody needs to be told who asked for
    /// quiet, unless as JSON.
    pub(crate) fn done<R: Serialize>(
        &mut self,
        json: bool,
        report: &R,
        text: impl FnOnce(&R, Option<usize>) -> String,
    ) -> Result<(), Failure> {
        if self.quiet && !json {
            Ok(())
        } else {
            self.report(json, report, text)
        }
    }

    /// Prints a result as one line of JSON.
    pub(crate) fn json(&mut self, report: &impl Serialize) -> Result<(), Failure> {
        let json = to_json(report)?;
        self.write_out(|stdout| {
            stdout.write_all(json.as_bytes())?;
            stdout.write_all(b"\n")
        })
    }

    /// Prints a result as one line of JSON, an object with a list that is too long to be held: the
    /// fields of `report` are followed by the list, called `name`, whose values `each` hands out.
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

    /// Says something beside the results, unless that isn't wanted: one line.
    pub(crate) fn note(&mut self, message: impl std::fmt::Display) {
        if !self.quiet {
            self.error(message);
        }
    }

    /// Says what went wrong: one line.
    pub(crate) fn error(&mut self, message: impl std::fmt::Display) {
        self.line.clear();
        // If this fails, nothing is left to report to.
        let _ = writeln!(
            self.stderr,
            "protosplit: {}",
            without_numbers(&harmless::message(&by_given_names(&message.to_string())))
        );
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.write_out(|stdout| stdout.flush())
    }

    /// Results that go to a terminal aren't mixed with a line that changes.
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

/// Bytes that are a result, of any size: once nobody reads them, there is no use in making more.
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
        // Done once the command ends.
        Ok(())
    }
}

/// The JSON of a value, in which nothing acts on a terminal.
fn to_json(value: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(value).map_err(|error| refused(&error.into()))?;
    Ok(harmless::json(&by_given_names(&json)).into_owned())
}

fn refused(error: &io::Error) -> Failure {
    Failure::usage(format!("standard output: {error}"))
}

/// The text without the numbers of the system's errors, which stand behind what they mean.
fn without_numbers(text: &str) -> String {
    let mut pieces = text.split(" (os error ");
    let mut said = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let behind = piece.trim_start_matches(|c: char| c.is_ascii_digit());
        said.push_str(behind.strip_prefix(')').unwrap_or(behind));
    }
    said
}

/// A checksum as it is shown everywhere.
pub(crate) fn hex(crc32c: u32) -> String {
    format!("{crc32c:08x}")
}

/// A path for a column, where the root must not be nothing.
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
