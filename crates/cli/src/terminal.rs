//! What results are written for.

use std::io::IsTerminal;

/// The terminal behind standard output, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    is_there: bool,
    width: Option<usize>,
    is_coloured: bool,
}

impl Terminal {
    /// No terminal: lines get as long as they need to be.
    #[must_use]
    pub fn none() -> Self {
        Terminal::default()
    }

    /// The terminal of this process. The variable `COLUMNS`, if it is set, says how wide it is.
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
            is_coloured: is_coloured(|name| std::env::var(name).ok()),
        }
    }

    /// A terminal with this many columns.
    #[must_use]
    pub fn of_width(columns: usize) -> Self {
        Terminal {
            is_there: true,
            width: Some(columns),
            is_coloured: false,
        }
    }

    /// Whether there is one.
    pub(crate) fn is_there(self) -> bool {
        self.is_there
    }

    /// Whether it shows colours, and its user wants them.
    pub(crate) fn is_coloured(self) -> bool {
        self.is_coloured
    }

    /// Its columns.
    #[must_use]
    pub fn width(self) -> Option<usize> {
        self.width
    }
}

/// Whether the environment is for colours: not if `NO_COLOR` says something, nor on a terminal that
/// only knows characters.
fn is_coloured(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_unwanted = variable("NO_COLOR").is_some_and(|no| !no.is_empty());
    let is_dumb = variable("TERM").is_some_and(|term| term == "dumb");
    !is_unwanted && !is_dumb
}

/// What `COLUMNS` says, or else the terminal itself; not a width of none, as some that aren't real
/// have.
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
    fn colours_are_shown_unless_the_environment_is_against_it() {
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
            assert_eq!(is_coloured(variable), expected, "{no_color:?} {term:?}");
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
