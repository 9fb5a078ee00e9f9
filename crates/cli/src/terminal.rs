//! What results are written for.

use std::io::IsTerminal;

/// The terminal behind standard output, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    width: Option<usize>,
}

impl Terminal {
    /// No terminal: lines get as long as they need to be.
    #[must_use]
    pub fn none() -> Self {
        Terminal::default()
    }

    /// The terminal of this process.
    #[must_use]
    pub fn detect() -> Self {
        if !std::io::stdout().is_terminal() {
            return Terminal::none();
        }
        let size = terminal_size::terminal_size();
        Terminal {
            width: size.map(|(width, _)| usize::from(width.0)),
        }
    }

    /// A terminal with so many columns.
    #[must_use]
    pub fn of_width(columns: usize) -> Self {
        Terminal {
            width: Some(columns),
        }
    }

    /// Its columns.
    #[must_use]
    pub fn width(self) -> Option<usize> {
        self.width
    }
}
