//! Measuring how much memory a command uses.

use std::fs;
use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Interval between two measurements of a process.
const INTERVAL: Duration = Duration::from_millis(1);

/// The peak memory usage of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Largest anonymous memory in any of the measurements, in bytes. A peak between two
    /// measurements isn't included.
    pub anonymous: u64,
    /// Largest resident memory, in bytes, including pages of the executable and of other mapped
    /// files. The operating system records this maximum, so it includes every peak. It is never
    /// less than `anonymous`.
    pub resident: u64,
}

/// Runs a command until it ends, without input and output, and measures its memory. The memory is 0
/// if the operating system doesn't report it.
///
/// # Errors
///
/// If the process can't be started.
pub fn watch(command: &mut Command) -> io::Result<(ExitStatus, Peak)> {
    watch_writing_to(command, Stdio::null())
}

/// Runs a command and measures its memory like [`watch`], but redirects the command's standard
/// output to `output`.
///
/// # Errors
///
/// If the process can't be started.
pub fn watch_writing_to(
    command: &mut Command,
    output: impl Into<Stdio>,
) -> io::Result<(ExitStatus, Peak)> {
    let command = command.stdin(Stdio::null()).stdout(output);
    let mut child = command.spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak = Peak::default();
    loop {
        if let Ok(text) = fs::read_to_string(&status) {
            peak.anonymous = peak.anonymous.max(bytes(&text, "RssAnon:"));
            peak.resident = peak.resident.max(bytes(&text, "VmHWM:"));
        }
        if let Some(status) = child.try_wait()? {
            return Ok((status, peak));
        }
        sleep(INTERVAL);
    }
}

/// Returns the value called `name` in `/proc/PID/status`, in bytes; 0 if there is none.
fn bytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn memory_that_a_command_takes_for_a_moment_is_seen() {
        // The shell keeps 64 MiB in a variable for 0.1 seconds.
        let script = "x=$(head -c 67108864 /dev/zero | tr '\\0' x); sleep 0.1; echo ${#x}";
        let (status, peak) = watch(Command::new("sh").args(["-c", script])).unwrap();
        assert!(status.success());
        assert!(peak.anonymous > 64 << 20, "{peak:?}");
        assert!(peak.resident >= peak.anonymous, "{peak:?}");
        let (_, little) = watch(Command::new("sh").args(["-c", "sleep 0.1"])).unwrap();
        assert!(
            little.anonymous < 8 << 20 && little.resident > 0,
            "{little:?}"
        );
    }
}
