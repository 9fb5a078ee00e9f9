//! A limit on the memory of decoded content.

use crate::{Error, ErrorKind, Result};

/// A limit on the memory of decoded content, since even a small file could otherwise take any amount
/// of memory.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
    limit: u64,
    /// The content and a verb, for the error message.
    what: &'static str,
}

impl Budget {
    /// Creates a limit on the tables of a buffer, which may share their content.
    pub(crate) fn of_tables(bytes: u64) -> Budget {
        Budget::new(bytes, "its tables expand to")
    }

    /// Creates a limit on the parsed lines of a text file.
    pub(crate) fn of_lines(bytes: u64) -> Budget {
        Budget::new(bytes, "the lines take")
    }

    fn new(bytes: u64, what: &'static str) -> Budget {
        Budget {
            left: bytes,
            limit: bytes,
            what,
        }
    }

    /// Subtracts `bytes` from the memory that is left. Fails if too little is left.
    pub(crate) fn spend(&mut self, bytes: u64) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let (what, limit) = (self.what, self.limit);
                let message = format!("{what} more than {limit} bytes of memory");
                Err(Error::new(ErrorKind::LimitExceeded, message))
            }
        }
    }
}
