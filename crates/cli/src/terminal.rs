//! The terminal that results are printed to.

use std::io::IsTerminal;

/// The properties of the terminal that standard output is connected to, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    is_there: bool,
    width: Option<usize>,
    is_colored: bool,
}

impl Terminal {
    /// Returns the value for output that doesn't go to a terminal. The lines of such output may
    /// have any length.
    #[must_use]
    pub fn none() -> Self {
        Terminal::default()
    }

    /// Detects the terminal that this process prints to. If the environment variable `COLUMNS` is
    /// set, it overrides the terminal's width.
    #[must_use]
    pub fn detect() -> Self {
        if !std::io::stdout().is_terminal() {
            return Terminal::none();
        }
        let size = terminal_size::terminal_size();
        let size = size.map(|(width, _)| usize::from(width.0));
        let columns = std::env::var("COLUMNS").ok();
        Terminal {
            is_there: true,
            width: width(columns.as_deref(), size),
            is_colored: is_colored(|name| std::env::var(name).ok()),
        }
    }

    /// Returns a terminal with the given number of columns.
    #[must_use]
    pub fn of_width(columns: usize) -> Self {
        Terminal {
            is_there: true,
            width: Some(columns),
            is_colored: false,
        }
    }

    /// Returns true if there is a terminal.
    pub(crate) fn is_there(self) -> bool {
        self.is_there
    }

    /// Returns true if the terminal supports colors, and the user didn't disable them.
    pub(crate) fn is_colored(self) -> bool {
        self.is_colored
    }

    /// Returns the width of the terminal, in columns; `None` if lines may have any length.
    #[must_use]
    pub fn width(self) -> Option<usize> {
        self.width
    }
}

/// Returns true unless `NO_COLOR` is set, or `TERM` says that the terminal doesn't support colors.
fn is_colored(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_unwanted = variable("NO_COLOR").is_some_and(|no| !no.is_empty());
    let is_dumb = variable("TERM").is_some_and(|term| term == "dumb");
    !is_unwanted && !is_dumb
}

/// Returns the width that the environment variable `COLUMNS` specifies, or otherwise the terminal's
/// own width. `columns` is the variable's value, and `size` is the terminal's width. A width of 0,
/// which some pseudo-terminals report, is ignored.
fn width(columns: Option<&str>, size: Option<usize>) -> Option<usize> {
    let asked = columns.and_then(|columns| columns.trim().parse().ok());
    asked
        .filter(|&width| width > 0)
        .or(size)
        .filter(|&width| width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_shown_unless_the_environment_is_against_it() {
        for (no_color, term, expected) in [
            (None, Some("xterm"), true),
            (Some(""), None, true),
            (Some("1"), Some("xterm"), false),
            (None, Some("dumb"), false),
        ] {
            let variable = |name: &str| match name {
                "NO_COLOR" => no_color.map(str::to_owned),
                _ => term.map(str::to_owned),
            };
            assert_eq!(is_colored(variable), expected, "{no_color:?} {term:?}");
        }
    }

    #[test]
    fn the_variable_comes_before_the_terminal_itself() {
        for (columns, size, expected) in [
            (Some("60"), Some(80), Some(60)),
            (Some(" 60 "), None, Some(60)),
            (Some("0"), Some(80), Some(80)),
            (Some("wide"), Some(80), Some(80)),
            (Some(""), None, None),
            (None, Some(0), None),
            (None, Some(80), Some(80)),
        ] {
            assert_eq!(width(columns, size), expected, "{columns:?} {size:?}");
        }
    }
}
