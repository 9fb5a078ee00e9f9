//! A handle to stop a command from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proto_splitter::progress::CancelToken;

/// A handle that stops a running command without leaving incomplete files. Clones stop the same
/// command.
///
/// ```
/// use protosplit_cli::{Exit, Interrupt, Terminal, run_on};
///
/// let interrupt = Interrupt::new();
/// assert!(!interrupt.raise(), "nothing runs yet that would have to clean up");
/// // Only commands that write react to it.
/// let (mut out, mut err) = (Vec::new(), Vec::new());
/// let exit = run_on(["protosplit", "--version"], &mut out, &mut err, Terminal::none(), &interrupt);
/// assert_eq!(exit, Exit::Done);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    token: CancelToken,
    heeded: Arc<AtomicBool>,
}

impl Interrupt {
    /// Creates a handle, which hasn't been raised yet.
    pub fn new() -> Self {
        Interrupt::default()
    }

    /// Stops the command. Returns false if the caller can end the process at once, because the
    /// command has nothing to clean up or the handle was raised before.
    #[must_use]
    pub fn raise(&self) -> bool {
        let first = !self.token.is_cancelled();
        self.token.cancel();
        first && self.heeded.load(Ordering::Relaxed)
    }

    /// Returns the token with which the command checks for cancellation.
    pub(crate) fn heed(&self) -> &CancelToken {
        self.heeded.store(true, Ordering::Relaxed);
        &self.token
    }
}
