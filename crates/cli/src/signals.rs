//! Handling of signals that stop the process.
//!
//! After such a signal, the process cleans up, and then ends itself with the same signal instead of
//! returning an exit status. Shells check for this to decide whether to stop a loop.

pub(crate) use system::watch;

#[cfg(unix)]
mod system {
    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI32, Ordering};

    use protosplit_cli::Interrupt;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    /// Signal for a write that exceeds the process's limit on file sizes.
    const SIGXFSZ: i32 = 25;

    /// The last signal that was received; 0 if none was.
    pub(crate) struct Watched(Arc<AtomicI32>);

    /// Interrupts the command when a signal arrives. If the command has nothing to clean up, or a
    /// second signal arrives, ends the process at once.
    pub(crate) fn watch(interrupt: &Interrupt) -> Watched {
        let last = Arc::new(AtomicI32::new(0));
        // With this handler, a write beyond the limit on file sizes fails like a write to a full
        // disk. Without it, the signal would end the process and leave an incomplete file.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        // SIGHUP isn't handled if `nohup` has made the process ignore it, or if that is unknown.
        let hangup = is_ignored(SIGHUP) == Some(false);
        let wanted = [SIGINT, SIGTERM]
            .into_iter()
            .chain(hangup.then_some(SIGHUP));
        // If the handler can't be installed, a signal ends the process at once.
        if let Ok(mut signals) = Signals::new(wanted) {
            let (last, interrupt) = (Arc::clone(&last), interrupt.clone());
            // If the thread can't be started, signals keep their default effect.
            let heed = move || {
                for signal in signals.forever() {
                    last.store(signal, Ordering::Relaxed);
                    if !interrupt.raise() {
                        let _ = emulate_default_handler(signal);
                    }
                }
            };
            let _ = std::thread::Builder::new().spawn(heed);
        }
        Watched(last)
    }

    impl Watched {
        /// Ends the process with the signal that was received, if there was one.
        pub(crate) fn end(&self) {
            let signal = self.0.load(Ordering::Relaxed);
            if signal != 0 {
                let _ = emulate_default_handler(signal);
            }
        }
    }

    /// Returns true if the process was started with this signal ignored; `None` if that is unknown.
    fn is_ignored(signal: i32) -> Option<bool> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))?;
        let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
        Some(mask >> (signal - 1) & 1 == 1)
    }
}

#[cfg(not(unix))]
mod system {
    use protosplit_cli::{Exit, Interrupt};

    pub(crate) struct Watched;

    /// Interrupts the command on Ctrl-C. If the command has nothing to clean up, or Ctrl-C is
    /// pressed again, ends the process at once.
    pub(crate) fn watch(interrupt: &Interrupt) -> Watched {
        let interrupt = interrupt.clone();
        // If the handler can't be installed, Ctrl-C ends the process at once.
        let _ = ctrlc::set_handler(move || {
            if !interrupt.raise() {
                std::process::exit(Exit::Interrupted.code().into());
            }
        });
        Watched
    }

    impl Watched {
        pub(crate) fn end(&self) {}
    }
}
