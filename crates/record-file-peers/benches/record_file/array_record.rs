//! array_record, Google's C++ library with a Python module, in a process that executes commands and
//! reports the time each command took.
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use record_file_peers::Outcome;

pub(crate) struct ArrayRecord {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    raw: PathBuf,
}

impl ArrayRecord {
    /// Starts the process. Returns `None` if `array_record/setup.sh` hasn't installed array_record.
    pub(crate) fn start(folder: &Path) -> Outcome<Option<Self>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let python = root.join("../../.interop/array_record-venv/bin/python");
        if !python.exists() {
            return Ok(None);
        }
        let mut process = Command::new(python)
            .arg(root.join("array_record/serve.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = process.stdin.take().ok_or("a pipe")?;
        let answers = BufReader::new(process.stdout.take().ok_or("a pipe")?);
        Ok(Some(ArrayRecord {
            process,
            commands,
            answers,
            raw: folder.join("records.raw"),
        }))
    }

    fn ask(&mut self, command: &str) -> Outcome<String> {
        writeln!(self.commands, "{command}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim().strip_prefix("ok ") {
            Some(rest) => Ok(rest.to_owned()),
            None => Err(format!("array_record: {command}: {answer}").into()),
        }
    }

    fn time(&mut self, command: &str) -> Outcome<Duration> {
        Ok(Duration::from_secs_f64(self.ask(command)?.parse()?))
    }

    /// Loads the given records into the process.
    pub(crate) fn load(&mut self, records: &[Vec<u8>]) -> Outcome<()> {
        let mut out = BufWriter::new(std::fs::File::create(&self.raw)?);
        for record in records {
            out.write_all(&u32::try_from(record.len())?.to_le_bytes())?;
            out.write_all(record)?;
        }
        out.flush()?;
        drop(out);
        self.ask(&format!("load\t{}", self.raw.display()))?;
        Ok(std::fs::remove_file(&self.raw)?)
    }

    /// Writes the loaded records to a new file, and returns the time this took.
    pub(crate) fn write(&mut self, path: &Path, options: &str) -> Outcome<Duration> {
        self.time(&format!("write\t{}\t{options}", path.display()))
    }

    /// Reads a file, and returns the time this took. `how` is `each` to read every record
    /// separately, or `all` to read all records at once.
    pub(crate) fn read(&mut self, path: &Path, options: &str, how: &str) -> Outcome<Duration> {
        self.time(&format!("read\t{}\t{options}\t{how}", path.display()))
    }
}

impl Drop for ArrayRecord {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
