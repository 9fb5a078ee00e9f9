//! Detecting whether a process began with its standard output closed, for example by `>&-` in a
//! shell.
//!
//! Before `main` runs, Rust's runtime opens `/dev/null` in place of a closed standard stream. A
//! program that prints its result would then lose the result and still report success. This crate
//! checks standard output before the runtime does this.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns true if standard output was closed when the process began. Returns false on systems
/// where this can't be determined.
///
/// ```
/// assert!(!proto_splitter_startup::stdout_was_closed());
/// ```
#[must_use]
pub fn stdout_was_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

#[cfg(unix)]
mod before_main {
    use std::io;
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;

    use super::IS_CLOSED;

    /// System error number for a file descriptor that isn't open.
    const EBADF: i32 = 9;

    extern "C" fn look() {
        if let Err(error) = io::stdout().as_fd().try_clone_to_owned() {
            IS_CLOSED.store(error.raw_os_error() == Some(EBADF), Ordering::Relaxed);
        }
    }

    /// A pointer to [`look`], which the system's loader calls before Rust's runtime starts.
    /// Registering such a function isn't possible in safe code.
    #[allow(
        unsafe_code,
        reason = "names the section of functions that the loader calls"
    )]
    #[used]
    #[cfg_attr(
        not(target_vendor = "apple"),
        // SAFETY: the section is an array of functions of this type, and `look` doesn't need the
        // runtime.
        unsafe(link_section = ".init_array")
    )]
    #[cfg_attr(
        target_vendor = "apple",
        // SAFETY: as above.
        unsafe(link_section = "__DATA,__mod_init_func")
    )]
    static LOOK: extern "C" fn() = look;
}
