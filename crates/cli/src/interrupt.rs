//! Stopping a run of the command from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proto_splitter::progress::CancelToken;

/// A handle that stops a run of the command cleanly, without leaving incomplete files. Clones stop
/// the same run.
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
    /// Creates a handle for a run, which isn't interrupted yet.
    pub fn new() -> Self {
        Interrupt::default()
    }

    /// Stops the run. Returns false if the run has nothing to clean up or was interrupted before,
    /// so that the process can end at once.
    #[must_use]
    pub fn raise(&self) -> bool {
        let first = !self.token.is_cancelled();
        self.token.cancel();
        first && self.heeded.load(Ordering::Relaxed)
    }

    /// Returns the token that cancels the work.
    pub(crate) fn heed(&self) -> &CancelToken {
        self.heeded.store(true, Ordering::Relaxed);
        &self.token
    }
}
