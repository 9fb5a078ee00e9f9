//! Helpers for tests: a temporary folder, functions that run the command, and fixtures.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_testkit::fixtures::MESSAGES;
use protosplit_cli::Exit;
use serde_json::Value;
use tempfile::TempDir;

/// The exit status of a command, and the text that it printed to standard output and standard
/// error.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit: Exit,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Checks that the command succeeded without notes, and returns its output.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(
            (self.exit, self.err.as_str()),
            (Exit::Done, ""),
            "{}",
            self.out
        );
        self.out
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// Checks that the command failed with the given status, and returns its error. The error must
    /// be on one line, and is returned without the command's name.
    #[track_caller]
    pub(crate) fn failed(self, exit: Exit) -> String {
        assert_eq!(self.exit, exit, "{self:?}");
        let line = self
            .err
            .strip_prefix("protosplit: ")
            .expect("an error begins with the command's name");
        let line = line.strip_suffix('\n').unwrap();
        assert!(!line.contains('\n'), "{line}");
        line.to_owned()
    }
}

/// Runs the command in this process.
pub(crate) fn run<const N: usize>(args: [&dyn AsRef<Path>; N]) -> Ran {
    run_all(args)
}

/// Runs the command in this process, with any number of arguments.
pub(crate) fn run_all<'a>(args: impl IntoIterator<Item = &'a dyn AsRef<Path>>) -> Ran {
    let args = args
        .into_iter()
        .map(|arg| OsString::from(arg.as_ref().as_os_str()));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = protosplit_cli::run(
        std::iter::once("protosplit".into()).chain(args),
        &mut out,
        &mut err,
    );
    Ran {
        exit,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

/// A temporary folder, which is removed with its contents on drop.
pub(crate) struct Dir(TempDir);

impl Dir {
    pub(crate) fn new() -> Self {
        Dir(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file in the folder, and returns its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Copies a fixture to the folder, and returns the path of the copy.
    pub(crate) fn copy(&self, from: &Path, name: &str) -> PathBuf {
        self.file(name, fs::read(from).unwrap())
    }

    /// Splits a message to `NAME.cpb` in the folder, with the given options, and returns that path.
    #[track_caller]
    pub(crate) fn split(&self, message: &Path, name: &str, options: &[&str]) -> PathBuf {
        let prefix = self.path(name);
        let arguments: [&dyn AsRef<Path>; 4] = [&"split", &message, &"-o", &prefix];
        let options = options.iter().map(|option| option as &dyn AsRef<Path>);
        run_all(arguments.into_iter().chain(options)).ok();
        self.path(&format!("{name}.cpb"))
    }

    /// Returns the names of all files in the folder and its subfolders, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        files(self.0.path())
    }
}

/// Returns the names of all files in a folder and its subfolders, sorted.
pub(crate) fn files(root: &Path) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(
                    path.strip_prefix(root)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
    }
    found.sort();
    found
}

/// Returns the path of a fixture that TensorFlow has written.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/tensorflow")
        .join(name)
}

/// Returns the path of a chunked file that another program has written.
pub(crate) fn foreign(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/tensorflow_cpb")
        .join(name)
}

/// Returns the path of a record file that another program has written.
pub(crate) fn riegeli(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/riegeli")
        .join(name)
}

pub(crate) const SAVED_MODELS: [&str; 4] = [
    "functions_consts",
    "keras_mlp",
    "lookup_strings",
    "tf1_two_metagraphs",
];

/// Returns the paths of all messages that TensorFlow has written, with their types.
pub(crate) fn messages() -> Vec<(PathBuf, &'static str)> {
    MESSAGES
        .map(|(file, message)| (fixture(file), message))
        .to_vec()
}
