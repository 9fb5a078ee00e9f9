//! Identifiers of processes that write files. An identifier consists of the host, the process
//! number and the start time. Names of temporary files and folders contain it on file systems on
//! which other hosts can't tell from locks whether the process is still running.

use std::fmt;

/// A unique identifier of a process: no other process on any host has, or has had, the same
/// identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// Hash of the host's name, the host's boot ID, and the PID namespace of the process. The
    /// process numbers of two owners can be compared only if the owners' hashes are equal.
    host: u64,
    process: u32,
    /// Start time of the process, in clock ticks after the host's boot. It distinguishes the
    /// process from earlier ones with the same number.
    started: u64,
}

/// The state of an [`Owner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Runs,
    Ended,
    /// The process is on another host, or this user can't inspect it.
    Unknown,
}

impl Owner {
    /// Returns the identifier of this process; `None` if the system can't provide it.
    pub(super) fn this() -> Option<Owner> {
        let process = std::process::id();
        Some(Owner {
            host: system::host()?,
            process,
            started: system::started(process)?,
        })
    }

    /// Parses an owner and the hyphen after it at the beginning of a string; `None` if there is
    /// none.
    pub(super) fn parse(text: &str) -> Option<Owner> {
        let mut parts = text.splitn(4, '-');
        let host = parts.next().filter(|host| host.len() == 16)?;
        let owner = Owner {
            host: u64::from_str_radix(host, 16).ok()?,
            process: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        parts.next().map(|_| owner)
    }

    pub(super) fn fate(&self) -> Fate {
        if system::host() != Some(self.host) {
            return Fate::Unknown;
        }
        match system::started(self.process) {
            Some(started) if started == self.started => Fate::Runs,
            Some(_) => Fate::Ended,
            None => system::fate_of_unseen(self.process),
        }
    }
}

/// The format that [`parse`](Owner::parse) reads.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}-{}-", self.host, self.process, self.started)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;

    use highway::{HighwayHash, HighwayHasher, Key};
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    use super::Fate;

    pub(super) fn host() -> Option<u64> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        let host = format!("{boot}{name}{}", namespace.display());
        Some(HighwayHasher::new(Key::default()).hash64(host.as_bytes()))
    }

    /// Returns the start time of a process: the 22nd field of `/proc/PID/stat`, whose 2nd field is
    /// a name in parentheses that may contain spaces. `None` if the file can't be read.
    pub(super) fn started(process: u32) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_whitespace().nth(19)?.parse().ok()
    }

    /// Returns the state of a process whose start time can't be read, either because the process
    /// has ended or because this user isn't allowed to inspect it.
    pub(super) fn fate_of_unseen(process: u32) -> Fate {
        let process = i32::try_from(process).ok().and_then(Pid::from_raw);
        match process.map(test_kill_process) {
            None | Some(Err(Errno::SRCH)) => Fate::Ended,
            Some(_) => Fate::Unknown,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::Fate;

    pub(super) fn host() -> Option<u64> {
        None
    }

    pub(super) fn started(_process: u32) -> Option<u64> {
        None
    }

    pub(super) fn fate_of_unseen(_process: u32) -> Fate {
        Fate::Unknown
    }
}

#[cfg(all(test, target_os = "linux"))]
pub(super) mod tests {
    use std::process::Command;

    use super::*;

    /// Returns the identifier of a process on this host that has ended.
    pub(in crate::io) fn ended() -> Owner {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let owner = Owner {
            process: child.id(),
            started: system::started(child.id()).unwrap(),
            ..Owner::this().unwrap()
        };
        assert_eq!(owner.fate(), Fate::Runs);
        child.kill().unwrap();
        child.wait().unwrap();
        owner
    }

    /// Returns the identifier of a process on another host.
    pub(in crate::io) fn elsewhere() -> Owner {
        let this = Owner::this().unwrap();
        Owner {
            host: !this.host,
            ..this
        }
    }

    #[test]
    fn a_process_runs_has_ended_or_is_another_hosts() {
        let this = Owner::this().unwrap();
        let again = Owner {
            started: this.started + 1,
            ..this
        };
        for (owner, fate) in [
            (this, Fate::Runs),
            (ended(), Fate::Ended),
            (again, Fate::Ended),
            (elsewhere(), Fate::Unknown),
        ] {
            assert_eq!(owner.fate(), fate);
            assert_eq!(Owner::parse(&format!("{owner}abcdef.tmp")), Some(owner));
        }
    }

    #[test]
    fn a_name_without_an_owner_has_none() {
        for name in [
            "abcdef.tmp",
            "0123-1-2-a.tmp",
            "0123456789abcdef-1-2",
            "0123456789abcdef-x-2-a",
            "0123456789abcdeg-1-2-a",
            "",
        ] {
            assert_eq!(Owner::parse(name), None, "{name}");
        }
    }
}
