//! Tests for zip archives: damaged entries, incomplete models, unusual file names, and full disks.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use proto_splitter_samediff::{Draft, Model, SameDiffWriteOptions, ZipCompression};
use protosplit_cli::Exit;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::samediff::model;
use crate::support::{Dir, run, run_all};

/// Flips a bit in the stored bytes of an archive's entry.
fn flip(file: &Path, entry: &str) {
    let mut archive = ZipArchive::new(File::open(file).unwrap()).unwrap();
    let index = archive.index_for_name(entry).unwrap();
    let entry = archive.by_index_raw(index).unwrap();
    let at = entry.data_start().unwrap() + entry.compressed_size() - 2;
    let mut bytes = fs::read(file).unwrap();
    bytes[usize::try_from(at).unwrap()] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

#[test]
fn every_verb_that_reads_an_entry_compares_its_checksum() {
    let dir = Dir::new();
    let sound = model(&dir);
    let file = dir.path("damaged.zip");
    let out = |name: &str| dir.path(name);
    let read: [(&str, &[&str]); 12] = [
        ("verify", &[]),
        ("get", &["Three/layer/w", "-o", "w.raw"]),
        ("export", &["-o", "all.npz"]),
        ("export", &["-o", "all.safetensors"]),
        ("convert", &["-o", "all.fb", "--to", "fb"]),
        ("convert", &["-o", "all.st", "--to", "safetensors"]),
        ("convert", &["-o", "all.zip", "--to", "samediff"]),
        ("samediff extract", &["Three", "-o", "tag.zip"]),
        ("samediff extract", &["Three", "-o", "tag.fb", "--to", "fb"]),
        ("samediff dedup", &["-o", "dedup.zip"]),
        ("samediff drop", &["one", "-o", "drop.zip"]),
        ("samediff rename", &["two", "2nd", "-o", "rename.zip"]),
    ];
    for compression in [ZipCompression::Stored, ZipCompression::Deflated] {
        for entry in ["Three/params/0.fb", "Three/graph.fb"] {
            let draft = Draft::open(&Model::open(&sound).unwrap()).unwrap();
            let options = SameDiffWriteOptions::new().compression(compression);
            draft.write(&file, &options.force(true)).unwrap();
            flip(&file, entry);
            for (verb, options) in read {
                let paths: Vec<PathBuf> = options.iter().map(|option| out(option)).collect();
                let option = |at: usize| -> &dyn AsRef<Path> {
                    let is_output = at > 0 && options[at - 1] == "-o";
                    if is_output { &paths[at] } else { &options[at] }
                };
                let words: Vec<&str> = verb.split(' ').collect();
                let mut arguments: Vec<&dyn AsRef<Path>> =
                    words.iter().map(|word| word as &dyn AsRef<Path>).collect();
                arguments.push(&file);
                arguments.extend((0..options.len()).map(option));
                let ran = run_all(arguments);
                let what = format!("{verb} {options:?} {entry} {compression:?}");
                // All commands except `get` and `export` read the graph.
                let needs_graph = !matches!(verb, "get" | "export");
                if entry.ends_with("graph.fb") && !needs_graph {
                    assert_eq!(ran.exit, Exit::Done, "{what}: {}", ran.err);
                    continue;
                }
                let line = ran.failed(Exit::Bad);
                let named = format!("{}: {entry}: ", file.display());
                let count = line.matches(&named).count();
                assert_eq!(count, 1, "{what}: {line}");
                let said = ["the crc-32 is", "the stored data is damaged", "the entry "];
                assert!(
                    said.iter().any(|said| line.contains(said)),
                    "{what}: {line}"
                );
                assert!(paths.iter().all(|path| !path.exists()), "{what}");
            }
            fs::read_dir(dir.path("")).unwrap().for_each(|file| {
                let path = file.unwrap().path();
                if path != sound {
                    fs::remove_file(path).unwrap();
                }
            });
        }
    }
}

/// Creates an archive with the given names and contents of files.
fn archive(dir: &Dir, name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let path = dir.path(name);
    let mut archive = ZipWriter::new(File::create(&path).unwrap());
    for (name, bytes) in files {
        archive
            .start_file(*name, SimpleFileOptions::default())
            .unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
    path
}

#[test]
fn what_is_nearly_a_model_is_named_by_every_verb() {
    let dir = Dir::new();
    let lacking = archive(
        &dir,
        "lacking.bin",
        &[("one/graph.fb", b""), ("one/params.txt", b"")],
    );
    let nested = archive(&dir, "nested.bin", &[("model/tags.txt", b"one\n")]);
    let mut cut = fs::read(&lacking).unwrap();
    cut.truncate(cut.len() - 4);
    let cut = dir.file("cut.bin", cut);
    let out = dir.path("out");
    for (file, why) in [
        (&lacking, "not a SameDiff model: it has neither tags.txt"),
        (&nested, "not a SameDiff model: it has neither tags.txt"),
        (&cut, "zip archive"),
    ] {
        for verb in [
            "info", "ls", "tree", "tensors", "verify", "cat", "schema", "get", "export", "convert",
            "split", "strip",
        ] {
            let with: &[&dyn AsRef<Path>] = match verb {
                "get" => &[&"w"],
                "export" => &[&"-o", &"out.npz"],
                "convert" | "split" => &[&"-o", &out],
                "strip" => &[&"-o", &out, &"--over", &"1"],
                _ => &[],
            };
            let arguments: [&dyn AsRef<Path>; 2] = [&verb, file];
            let ran = run_all(arguments.into_iter().chain(with.iter().copied()));
            assert_ne!(ran.exit, Exit::Done, "{verb} {}", file.display());
            assert!(ran.err.contains(why), "{verb}: {}", ran.err);
            assert!(!out.exists());
        }
    }
}

#[test]
fn the_files_of_an_exported_archive_lie_below_its_folder() {
    let dir = Dir::new();
    let names = ["../../evil", "/etc/evil", "..\\evil", "C:\\evil", "x:0"];
    let tensors = names.iter().enumerate().map(|(at, name)| {
        let name = serde_json::to_string(name).unwrap();
        format!(
            r#"{name}:{{"dtype":"U8","shape":[1],"data_offsets":[{at},{}]}}"#,
            at + 1
        )
    });
    let header = format!("{{{}}}", tensors.collect::<Vec<_>>().join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.into_bytes());
    bytes.extend([1, 2, 3, 4, 5]);
    let file = dir.file("model.safetensors", bytes);
    let out = dir.path("all.npz");
    let ran = run([&"export", &file, &"-o", &out]);
    assert_eq!(ran.exit, Exit::Done);
    assert_eq!(ran.err.lines().count(), 4, "{}", ran.err);
    let archive = ZipArchive::new(File::open(out).unwrap()).unwrap();
    let mut found: Vec<_> = archive.file_names().map(|name| name.unwrap()).collect();
    found.sort();
    assert_eq!(
        found,
        [
            "%2E%2E/%2E%2E/evil.npy",
            "%2E%2E\\evil.npy",
            "%2Fetc/evil.npy",
            "C%3A\\evil.npy",
            "x:0.npy",
        ]
    );
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_told_in_one_line_that_names_the_file() {
    let dir = Dir::new();
    let len = 1 << 20;
    let header = format!(r#"{{"w":{{"dtype":"U8","shape":[{len}],"data_offsets":[0,{len}]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.into_bytes());
    bytes.resize(bytes.len() + len, 7);
    let file = dir.file("model.safetensors", bytes);
    for (verb, out) in [
        ("export", "out.npz"),
        ("export", "out.st.safetensors"),
        ("convert --to samediff", "out.zip"),
        ("samediff add --tag one", "added.zip"),
    ] {
        let command = env!("CARGO_BIN_EXE_protosplit");
        // The shell limits files to 100 blocks, so that writing fails as on a full disk.
        let script = format!("trap '' XFSZ; ulimit -f 100; exec {command} {verb} \"$0\" -o \"$1\"");
        let out = dir.path(out);
        let ran = std::process::Command::new("sh")
            .arg("-c")
            .arg(script)
            .args([&file, &out])
            .output()
            .unwrap();
        let err = String::from_utf8(ran.stderr).unwrap();
        assert!(!ran.status.success(), "{verb}");
        assert_eq!(err.lines().count(), 1, "{verb}: {err}");
        assert!(
            err.contains(&format!("{}: ", out.display())),
            "{verb}: {err}"
        );
        assert!(!out.exists(), "{verb}");
    }
}
