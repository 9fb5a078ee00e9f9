//! A limit on the memory for the names of tensors.

use crate::{Error, ErrorKind, Result};

/// Maximum total size of the names in a [`NameBudget`], in bytes: 256 MiB.
const MAX_NAMES: u64 = 256 << 20;

/// A budget for the names of the tensors that a format lists: 256 MiB in total.
///
/// A tensor's name often begins with the names of the messages around it. The names of all tensors
/// in a large message with a long name may therefore be far larger than the model itself.
///
/// ```
/// use proto_splitter_core::tensor::NameBudget;
///
/// let mut budget = NameBudget::default();
/// assert!(budget.spend(200 << 20).is_ok());
/// assert!(budget.spend(100 << 20).is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct NameBudget {
    spent: u64,
}

impl NameBudget {
    /// Adds a name, or several names, of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`] if all names together have more than 256 MiB.
    pub fn spend(&mut self, bytes: u64) -> Result<()> {
        self.spent = self.spent.saturating_add(bytes);
        if self.spent > MAX_NAMES {
            let message = format!("the names of the tensors have more than {MAX_NAMES} bytes");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        Ok(())
    }
}
