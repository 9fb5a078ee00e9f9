//! What is sent to the process to stop it.
//!
//! A process that was stopped by a signal ends by it once it has cleaned up, rather than with a
//! status: that is what shells look at to see whether a loop is to stop, too.

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

    /// What the system sends for a file that grows larger than a process may write.
    const SIGXFSZ: i32 = 25;

    /// The signal that came last.
    pub(crate) struct Watched(Arc<AtomicI32>);

    /// Has signals interrupt the run. What cleans up nothing, or is told twice, ends at once.
    pub(crate) fn watch(interrupt: &Interrupt) -> Watched {
        let last = Arc::new(AtomicI32::new(0));
        // A write past the limit on file sizes then is an error like that on a full disk. It would
        // end the process, and leave what it has written.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        // Not the one that `nohup` has ignored, nor where nobody tells.
        let hangup = is_ignored(SIGHUP) == Some(false);
        let wanted = [SIGINT, SIGTERM]
            .into_iter()
            .chain(hangup.then_some(SIGHUP));
        // Without a handler a signal ends the process, and that is all.
        if let Ok(mut signals) = Signals::new(wanted) {
            let (last, interrupt) = (Arc::clone(&last), interrupt.clone());
            // Where no thread can begin, a signal does what it does without a handler.
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
        /// Ends the process by the signal that stopped it, if it was one.
        pub(crate) fn end(&self) {
            let signal = self.0.load(Ordering::Relaxed);
            if signal != 0 {
                let _ = emulate_default_handler(signal);
            }
        }
    }

    /// Whether whoever started this process wants it to ignore the signal.
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

    /// Has Ctrl-C interrupt the run. What cleans up nothing, or is told twice, ends at once.
    pub(crate) fn watch(interrupt: &Interrupt) -> Watched {
        let interrupt = interrupt.clone();
        // Without a handler Ctrl-C ends the process, and that is all.
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
