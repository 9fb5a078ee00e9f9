//! Signals that stop the process.
//!
//! A process stopped by a signal cleans up and then ends by the same signal rather than with a status: shells check for it to stop a loop.

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

    /// Signal for a file that exceeds the process's size limit.
    const SIGXFSZ: i32 = 25;

    /// The last signal received.
    pub(crate) struct Watched(Arc<AtomicI32>);

    /// Interrupts the run on a signal. A run with nothing to clean up, or a second signal, ends at once.
    pub(crate) fn watch(interrupt: &Interrupt) -> Watched {
        let last = Arc::new(AtomicI32::new(0));
        // A write beyond the limit on file sizes then fails like one on a full disk. The signal would end the process and leave a partial
        // file.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        // The signal isn't handled if `nohup` ignores it, or if that is unknown.
        let hangup = is_ignored(SIGHUP) == Some(false);
        let wanted = [SIGINT, SIGTERM]
            .into_iter()
            .chain(hangup.then_some(SIGHUP));
        // Without a handler a signal simply ends the process.
        if let Ok(mut signals) = Signals::new(wanted) {
            let (last, interrupt) = (Arc::clone(&last), interrupt.clone());
            // If no thread can start, the signal has its default effect.
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
        /// Ends the process by the signal that stopped it, if any.
        pub(crate) fn end(&self) {
            let signal = self.0.load(Ordering::Relaxed);
            if signal != 0 {
                let _ = emulate_default_handler(signal);
            }
        }
    }

    /// Returns true if the parent process wants the signal ignored.
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

    /// Interrupts the run on Ctrl-C. A run with nothing to clean up, or a second Ctrl-C, ends at once.
    pub(crate) fn watch(interrupt: &Interrupt) -> Watched {
        let interrupt = interrupt.clone();
        // Without a handler Ctrl-C simply ends the process.
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
