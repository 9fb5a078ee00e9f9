//! Signals that stop the process.
//!
//! If a signal stops the process, it cleans up and then ends with the same signal, instead of
//! returning a status. Shells check for this in order to stop a loop.

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

    /// The signal for a file that exceeds the process's size limit.
    const SIGXFSZ: i32 = 25;

    /// The last signal received.
    pub(crate) struct Watched(Arc<AtomicI32>);

    /// Interrupts the run when a signal arrives. Ends the process at once if the run has nothing to
    /// clean up, or if another signal arrives.
    pub(crate) fn watch(interrupt: &Interrupt) -> Watched {
        let last = Arc::new(AtomicI32::new(0));
        // With this handler, a write beyond the limit on file sizes fails like a write to a full
        // disk. By default, the signal would end the process, and leave a partial file.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        // The signal isn't handled if `nohup` ignores it, or if it is unknown whether it is
        // ignored.
        let hangup = is_ignored(SIGHUP) == Some(false);
        let wanted = [SIGINT, SIGTERM]
            .into_iter()
            .chain(hangup.then_some(SIGHUP));
        // Without a handler, a signal simply ends the process.
        if let Ok(mut signals) = Signals::new(wanted) {
            let (last, interrupt) = (Arc::clone(&last), interrupt.clone());
            // If no thread can be started, the signal keeps its default effect.
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
        /// If a signal stopped the process, ends the process with the same signal.
        pub(crate) fn end(&self) {
            let signal = self.0.load(Ordering::Relaxed);
            if signal != 0 {
                let _ = emulate_default_handler(signal);
            }
        }
    }

    /// Returns true if the parent process made this process ignore the signal.
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

    /// Interrupts the run on Ctrl-C. Ends the process at once if the run has nothing to clean up,
    /// or on another Ctrl-C.
    pub(crate) fn watch(interrupt: &Interrupt) -> Watched {
        let interrupt = interrupt.clone();
        // Without a handler, Ctrl-C simply ends the process.
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
