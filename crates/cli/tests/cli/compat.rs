//! Tests that files of released versions can still be read, and that the same commands still write
//! the same bytes. With `UPDATE_COMPAT=1`, the stored files of the current version are rewritten.

use std::fs;
use std::path::{Path, PathBuf};

use crate::onnx;
use crate::support::{Dir, files, run_all};
use prost_reflect::prost::Message;

/// Current version, whose stored files `UPDATE_COMPAT=1` rewrites.
const VERSION: &str = "0.1.0";

/// A kind of file or folder that a command writes.
struct Form {
    /// Name of the form's folder, inside the folder of a version.
    name: &'static str,
    /// Path of the source file or folder.
    source: &'static str,
    /// Command that writes the form. `IN` is the source, and `OUT` is a path inside the form's
    /// folder.
    written_by: &'static str,
    /// Command that reads the form. `IN` is the form's folder, and `OUT` is the result.
    read_by: &'static str,
    /// True if the result must equal the source; otherwise, it must equal the file stored in
    /// `reads-as`.
    gives_back: bool,
}

const GRAPH: &str = "tensorflow/graphdef_dtypes/graph.pb";
const FUNCTIONS: &str = "tensorflow/functions_consts";
const MODEL: &str = "model.onnx";
const PADDLE: &str = "paddle/jit_save";
const SDNB: &str = "samediff/model.sdnb";
const MODULE: &str = "xla/jax01201_dtypes_after.hlo.pb";
const PROFILE: &str = "xla/xspace/jax01201_cpu.xplane.pb";

/// Defines a form for a `.cpb` file that is split with the given options.
macro_rules! chunked {
    ($name:literal, $options:literal) => {
        Form {
            name: $name,
            source: GRAPH,
            written_by: concat!(
                "split IN --message tensorflow.GraphDef -o OUT/graph.cpb ",
                $options
            ),
            read_by: "merge IN/graph.cpb -o OUT",
            gives_back: true,
        }
    };
}

const FORMS: [Form; 19] = [
    chunked!("plain", "--max-chunk-size 8KiB --compression none"),
    chunked!("zstd", "--max-chunk-size 8KiB --compression zstd:3"),
    chunked!("brotli", "--max-chunk-size 8KiB --compression brotli:5"),
    chunked!("snappy", "--max-chunk-size 8KiB --compression snappy"),
    chunked!("auto", "--max-chunk-size 8KiB --value-chunk-size 1KiB"),
    chunked!("slices", "--max-slice-size 2KiB"),
    chunked!("schema", "--max-chunk-size 8KiB --embed-schema"),
    chunked!("extended", "--max-chunk-size 2KiB --profile extended"),
    chunked!(
        "several-files",
        "--max-chunk-size 4KiB --profile extended --max-file-size 16KiB"
    ),
    chunked!("merkle-root", "--max-chunk-size 8KiB --merkle-root"),
    chunked!(
        "merkle-root-extended",
        "--max-chunk-size 2KiB --profile extended --merkle-root"
    ),
    Form {
        name: "saved-model",
        source: FUNCTIONS,
        written_by: "split IN -o OUT/model --max-chunk-size 16KiB",
        read_by: "merge IN/model -o OUT",
        gives_back: true,
    },
    Form {
        name: "externalized",
        source: FUNCTIONS,
        written_by: "externalize IN -o OUT/model --min-size 1KiB",
        read_by: "internalize IN/model -o OUT",
        gives_back: true,
    },
    Form {
        name: "onnx-external",
        source: MODEL,
        written_by: "convert IN OUT/model.onnx --to external --set min-size=64",
        read_by: "convert IN/model.onnx OUT --to onnx",
        gives_back: true,
    },
    Form {
        name: "onnx-chunked",
        source: MODEL,
        written_by: "convert IN OUT/model.cpb --to cpb",
        read_by: "convert IN/model.cpb OUT --to onnx",
        gives_back: true,
    },
    Form {
        name: "paddle-chunked",
        source: PADDLE,
        written_by: "convert IN OUT/model.cpb --to cpb",
        read_by: "convert IN/model.cpb OUT --to combined",
        gives_back: false,
    },
    Form {
        name: "samediff",
        source: SDNB,
        written_by: "samediff add IN --tag start -o OUT/model.zip",
        read_by: "samediff extract IN/model.zip start -o OUT --to fb",
        gives_back: false,
    },
    Form {
        name: "xla-split-proto",
        source: MODULE,
        written_by: "convert IN OUT/module.riegeli --to split-proto",
        read_by: "convert IN/module.riegeli OUT --to pb",
        gives_back: false,
    },
    Form {
        name: "xla-profile",
        source: PROFILE,
        written_by: "convert IN OUT/profile.xplane.riegeli --to xplane-riegeli",
        read_by: "convert IN/profile.xplane.riegeli OUT --to pb",
        gives_back: true,
    },
];

/// Merkle roots of stored files. They must not change, since users may have stored a root to check
/// a file.
const ROOTS: [(&str, &str); 2] = [
    (
        "merkle-root",
        "92e12222768724fc8c11bf9641a0a255d53e4c72d993cb569ef9ab62e27f1aa4",
    ),
    (
        "merkle-root-extended",
        "4fc63c80d79ee2cf6a81a41b862465ca90516848a5f5d5a744e5286fb444e863",
    ),
];

/// Returns the folder with the stored files of a version.
fn version(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/compat")
        .join(version)
}

impl Form {
    /// Runs a command that writes or reads the form.
    #[track_caller]
    fn run(&self, command: &str, input: &Path, output: &Path) {
        let input = input.to_str().unwrap();
        let output = output.to_str().unwrap();
        let words = command.split(' ').map(|word| match word {
            "IN" => input.to_owned(),
            "OUT" => output.to_owned(),
            word => match word.split_once('/') {
                Some(("IN", rest)) => format!("{input}/{rest}"),
                Some(("OUT", rest)) => format!("{output}/{rest}"),
                _ => word.to_owned(),
            },
        });
        let words: Vec<String> = words.chain(["-q".to_owned()]).collect();
        run_all(words.iter().map(|word| word as &dyn AsRef<Path>)).ok();
    }

    /// Returns the path of the form's source file or folder.
    fn source(&self, dir: &Dir) -> PathBuf {
        match self.source {
            MODEL => dir.file(MODEL, onnx::model().encode_to_vec()),
            source => Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../tests/data")
                .join(source),
        }
    }
}

/// Returns the names and contents of the files in a folder and its subfolders, or of a single file.
fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    if path.is_file() {
        return vec![(String::new(), fs::read(path).unwrap())];
    }
    let content = |name: String| {
        let bytes = fs::read(path.join(&name)).unwrap();
        (name, bytes)
    };
    files(path).into_iter().map(content).collect()
}

fn update() -> bool {
    std::env::var_os("UPDATE_COMPAT").is_some()
}

/// Replaces the stored file or folder `kept` with `made`.
fn keep(made: &Path, kept: &Path) {
    let _ = fs::remove_dir_all(kept).or_else(|_| fs::remove_file(kept));
    for (name, bytes) in contents(made) {
        let file = if name.is_empty() {
            kept.to_owned()
        } else {
            kept.join(name)
        };
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
}

#[test]
fn the_same_commands_write_the_bytes_that_they_wrote() {
    for form in &FORMS {
        let dir = Dir::new();
        let made = dir.path("made");
        fs::create_dir(&made).unwrap();
        form.run(form.written_by, &form.source(&dir), &made);
        let kept = version(VERSION).join(form.name);
        if update() {
            keep(&made, &kept);
        }
        let (made, kept) = (contents(&made), contents(&kept));
        let names =
            |of: &[(String, Vec<u8>)]| of.iter().map(|one| one.0.clone()).collect::<Vec<_>>();
        assert_eq!(
            names(&made),
            names(&kept),
            "files of the form {}",
            form.name
        );
        for ((name, made), (_, kept)) in made.iter().zip(&kept) {
            assert!(
                made == kept,
                "{}: {name}: other bytes than {VERSION} wrote, which is a decision for the changelog",
                form.name
            );
        }
    }
}

#[test]
fn what_a_version_wrote_reads_as_it_did() {
    for form in &FORMS {
        let dir = Dir::new();
        let (back, version) = (dir.path("back"), version(VERSION));
        form.run(form.read_by, &version.join(form.name), &back);
        let expected = if form.gives_back {
            form.source(&dir)
        } else {
            version.join("reads-as").join(form.name)
        };
        if update() && !form.gives_back {
            keep(&back, &expected);
        }
        assert!(
            contents(&back) == contents(&expected),
            "{}: {} doesn't give {}",
            form.name,
            form.read_by,
            expected.display()
        );
    }
}

#[test]
fn the_merkle_roots_of_a_versions_files_still_hold() {
    for (name, root) in ROOTS {
        let file = version(VERSION).join(name).join("graph.cpb");
        run_all([&"verify" as &dyn AsRef<Path>, &file, &"--root", &root]).ok();
    }
}
