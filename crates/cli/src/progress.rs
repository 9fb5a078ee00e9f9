//! The line on the terminal that shows a command's progress.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike};
use proto_splitter::progress::Progress;

use crate::args::ProgressMode;
use crate::size;

/// Time after which the progress line appears, unless `--progress` requests it at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum number of updates of the line per second.
const PACE: u8 = 10;

/// Assumed width of a terminal that doesn't report its width.
const COLUMNS: u16 = 80;

/// Template of the line: text, followed by a bar.
const TEMPLATE: &str = "{msg}: {percent}% of {all}, {rate}/s, {eta} left  {wide_bar}";

/// A progress line on the terminal, which shows one task after another; `None` if no line is shown.
#[derive(Clone, Default)]
pub(crate) struct ProgressLine(Option<Arc<Shared>>);

struct Shared {
    start: Instant,
    patience: Duration,
    terminal: fn() -> Box<dyn TermLike>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    work: Option<Work>,
    /// True once the line must not be shown any more.
    over: bool,
}

/// A task, such as splitting, and its progress.
struct Work {
    doing: String,
    of: u64,
    bar: ProgressBar,
    /// True once the task has taken long enough to be shown.
    shown: bool,
}

impl ProgressLine {
    /// Creates a line on standard error. The line stays empty if the user doesn't want it, or
    /// standard error isn't a terminal.
    pub(crate) fn new(shown: ProgressMode) -> ProgressLine {
        let patience = match shown {
            ProgressMode::Auto if io::stderr().is_terminal() => PATIENCE,
            ProgressMode::Always => Duration::ZERO,
            ProgressMode::Auto | ProgressMode::Never => return ProgressLine::default(),
        };
        ProgressLine::on(|| Box::new(StandardError), patience)
    }

    fn on(terminal: fn() -> Box<dyn TermLike>, patience: Duration) -> ProgressLine {
        ProgressLine(Some(Arc::new(Shared {
            start: Instant::now(),
            patience,
            terminal,
            state: Mutex::default(),
        })))
    }

    /// Returns a progress listener for a new task, which the line shows from now on.
    pub(crate) fn bytes(&self, doing: &'static str) -> Progress {
        match &self.0 {
            None => Progress::default(),
            Some(shared) => {
                let shared = Arc::clone(shared);
                Progress::new(move |done, of| shared.show(done, of, doing))
            }
        }
    }

    /// Clears the line, so that other output can be printed.
    pub(crate) fn clear(&self) {
        if let Some(mut state) = self.0.as_ref().and_then(|shared| shared.state.lock().ok()) {
            state.clear();
        }
    }

    /// Clears the line. It isn't shown again.
    pub(crate) fn end(&self) {
        if let Some(mut state) = self.0.as_ref().and_then(|shared| shared.state.lock().ok()) {
            state.clear();
            state.over = true;
        }
    }

    /// Returns a callback that receives the progress of copying a file, and shows it.
    pub(crate) fn copies(&self) -> impl Fn(&Path, u64, u64) + Send + Sync + 'static {
        let line = self.clone();
        move |file, copied, of| {
            if let Some(shared) = &line.0 {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                shared.show(copied, of, &format!("copying {name}"));
            }
        }
    }
}

impl Shared {
    fn show(&self, done: u64, of: u64, doing: &str) {
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        if state.over {
            return;
        }
        if done >= of {
            state.clear();
            return;
        }
        let is_it = |work: &Work| work.of == of && work.doing == doing;
        if !state.work.as_ref().is_some_and(is_it) {
            state.clear();
        }
        let work = state.work.get_or_insert_with(|| Work::new(doing, of));
        if !work.shown && self.start.elapsed() >= self.patience {
            work.shown = true;
            let target = ProgressDrawTarget::term_like_with_hz((self.terminal)(), PACE);
            work.bar.set_draw_target(target);
        }
        // Reports from several threads may arrive out of order, so only an increase is shown.
        if done > work.bar.position() {
            work.bar.set_position(done);
        }
    }
}

impl Work {
    /// Creates a task that isn't shown yet. Its speed is measured from now on.
    fn new(doing: &str, of: u64) -> Work {
        let bar = ProgressBar::with_draw_target(Some(of), ProgressDrawTarget::hidden());
        bar.set_style(style().unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(doing.to_owned());
        Work {
            doing: doing.to_owned(),
            of,
            bar,
            shown: false,
        }
    }
}

impl State {
    /// Removes the line from the terminal.
    fn clear(&mut self) {
        if let Some(work) = self.work.take() {
            work.bar.finish_and_clear();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // After a task that didn't finish, the line is still visible, but later output should begin
        // on an empty line.
        if let Ok(state) = self.state.get_mut() {
            state.clear();
        }
    }
}

fn style() -> Result<ProgressStyle, indicatif::style::TemplateError> {
    let all = |state: &ProgressState, out: &mut dyn fmt::Write| {
        // Writing to a string doesn't fail.
        let _ = out.write_str(&size::show(state.len().unwrap_or(0)));
    };
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "such a cast saturates"
        )]
        let _ = out.write_str(&size::show(state.per_sec() as u64));
    };
    let style = ProgressStyle::with_template(TEMPLATE)?;
    Ok(style
        .with_key("all", all)
        .with_key("rate", rate)
        .progress_chars("=> "))
}

/// The target that draws a progress line on standard error, even if it isn't a terminal.
#[derive(Debug)]
struct StandardError;

impl TermLike for StandardError {
    fn width(&self) -> u16 {
        let size = terminal_size::terminal_size_of(io::stderr());
        size.map_or(COLUMNS, |(width, _)| width.0)
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        escape(lines, 'A')
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        escape(lines, 'B')
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        escape(columns, 'C')
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        escape(columns, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{text}")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        write!(io::stderr(), "{text}")
    }

    fn clear_line(&self) -> io::Result<()> {
        write!(io::stderr(), "\r\x1b[K")
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Writes the escape sequence that moves the cursor by this number of columns or lines.
fn escape(by: usize, direction: char) -> io::Result<()> {
    if by == 0 {
        return Ok(());
    }
    write!(io::stderr(), "\x1b[{by}{direction}")
}

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;

    use super::*;

    /// Output to a simulated terminal of 60 columns.
    static WRITTEN: Mutex<String> = Mutex::new(String::new());

    #[derive(Debug)]
    struct Written;

    impl TermLike for Written {
        fn width(&self) -> u16 {
            60
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
            written.push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.write_str("\n")
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written() -> String {
        let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut written)
    }

    #[test]
    fn a_line_says_what_is_done_how_far_it_is_and_goes_with_its_end() {
        let line = ProgressLine::on(|| Box::new(Written), Duration::ZERO);
        let shared = line.0.as_ref().unwrap();
        shared.show(3 << 29, 3 << 30, "splitting");
        let first = written();
        assert!(first.starts_with("splitting: 50% of 3.0 GiB, "), "{first}");
        assert!(
            first.contains("/s, ") && first.contains(" left  "),
            "{first}"
        );
        assert_eq!(first.chars().count(), 60, "{first}");
        shared.show(3 << 30, 3 << 30, "splitting");
        assert_eq!(written(), "\n");

        shared.show(1, 4, "merging");
        assert!(written().starts_with("merging: 25% of 4 B, "));
        line.end();
        assert_eq!(written(), "\n");
        shared.show(2, 4, "merging");
        drop(line);
        assert_eq!(written(), "");

        // A short task isn't shown.
        let line = ProgressLine::on(|| Box::new(Written), Duration::from_secs(3600));
        line.0.as_ref().unwrap().show(1, 4, "verifying");
        line.clear();
        assert_eq!(written(), "");
    }
}
