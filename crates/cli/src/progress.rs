//! A line on the terminal while large files are being copied.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a copy may take before anything is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the line changes at the most.
const PACE: Duration = Duration::from_millis(100);

/// Shows the progress of copies on the terminal behind standard error; does nothing where there is none.
pub(crate) fn on_terminal() -> impl Fn(&Path, u64, u64) + Send + Sync + 'static {
    let shown = std::io::stderr().is_terminal();
    let start = Instant::now();
    let last = Mutex::new(start);
    move |file: &Path, copied: u64, of: u64| {
        if !shown || start.elapsed() < PATIENCE {
            return;
        }
        let done = copied >= of;
        let Ok(mut last) = last.lock() else { return };
        if !done && last.elapsed() < PACE {
            return;
        }
        *last = Instant::now();
        let line = if done {
            String::new()
        } else {
            line(file, copied, of)
        };
        // The terminal being gone is no reason to stop.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }
}

fn line(file: &Path, copied: u64, of: u64) -> String {
    let percent = u128::from(copied) * 100 / u128::from(of.max(1));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!("copying {name}: {percent}% of {}", crate::size::show(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_file_and_how_far_its_copy_is() {
        let file = Path::new("variables/variables.data-00000-of-00001");
        let text = line(file, 3 << 29, 3 << 30);
        assert_eq!(
            text,
            "copying variables.data-00000-of-00001: 50% of 3.0 GiB"
        );
        assert_eq!(
            line(file, 0, 0),
            "copying variables.data-00000-of-00001: 0% of 0 B"
        );
    }
}
