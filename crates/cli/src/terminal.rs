//! What results are written for.

use std::io::IsTerminal;

/// The terminal behind standard output, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    is_there: bool,
    width: Option<usize>,
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
        }
    }

    /// A terminal with so many columns.
    #[must_use]
    pub fn of_width(columns: usize) -> Self {
        Terminal {
            is_there: true,
            width: Some(columns),
        }
    }

    /// Whether there is one.
    pub(crate) fn is_there(self) -> bool {
        self.is_there
    }

    /// Its columns.
    #[must_use]
    pub fn width(self) -> Option<usize> {
        self.width
    }
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
