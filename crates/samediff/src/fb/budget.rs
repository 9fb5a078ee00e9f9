//! The limit on the memory of decoded tables.

use crate::{Error, ErrorKind, Result};

/// A limit on the memory of decoded tables. Since the tables of a buffer may share their content,
/// even a small buffer could otherwise take any amount of memory.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
    limit: u64,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Budget {
        Budget {
            left: bytes,
            limit: bytes,
        }
    }

    pub(crate) fn spend(&mut self, bytes: u64) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let message = format!("its tables expand to more than {} bytes", self.limit);
                Err(Error::new(ErrorKind::LimitExceeded, message))
            }
        }
    }
}
