//! Tests for `-`, which means standard input from a file or a pipe, or standard output.
#![cfg(unix)]

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{Dir, fixture};

/// Runs the command with a pipe as standard input.
fn piped(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_protosplit"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // If the command fails early, it doesn't read all of its input, so writing may fail.
    match child.stdin.take().unwrap().write_all(input) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.unwrap(),
    }
    child.wait_with_output().unwrap()
}

/// Runs the command with a file as standard input.
fn from_file(args: &[&str], input: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_protosplit"))
        .args(args)
        .stdin(File::open(input).unwrap())
        .output()
        .unwrap()
}

fn done(ran: Output) -> Vec<u8> {
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    ran.stdout
}

#[test]
fn a_message_goes_through_split_and_merge_in_pipes_and_comes_out_as_it_was() {
    let dir = Dir::new();
    let prefix = dir.path("model");
    let prefix = prefix.to_str().unwrap();
    let model = fs::read(fixture("keras_mlp").join("saved_model.pb")).unwrap();
    let split = [
        "split",
        "-",
        "--message",
        "tensorflow.SavedModel",
        "--max-chunk-size",
        "20KiB",
        "-o",
        prefix,
    ];
    done(piped(&split, &model));
    let chunked = dir.path("model.cpb");
    let bytes = fs::read(&chunked).unwrap();
    let to_pipe = [&split[..split.len() - 1], &["-"]].concat();
    assert!(done(piped(&to_pipe, &model)) == bytes);
    assert!(done(piped(&["merge", "-", "-o", "-"], &bytes)) == model);
    assert!(done(from_file(&["merge", "-", "-o", "-"], &chunked)) == model);
    assert!(done(piped(&["merge", prefix, "-o", "-"], b"")) == model);
    let merged = dir.path("merged.pb");
    done(piped(
        &["merge", "-", "-o", merged.to_str().unwrap()],
        &bytes,
    ));
    assert!(fs::read(merged).unwrap() == model);
    let said = done(piped(&["verify", "-"], &bytes));
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("file     standard input\n"), "{said}");
    let cut = piped(&["verify", "-"], &bytes[..bytes.len() - 3]);
    let said = String::from_utf8(cut.stderr).unwrap();
    assert!(said.starts_with("protosplit: standard input: "), "{said}");
}

#[test]
fn a_message_that_needs_no_cut_goes_to_standard_output_as_it_is_with_a_note() {
    let model = fixture("keras_mlp").join("saved_model.pb");
    let ran = piped(&["split", model.to_str().unwrap(), "-o", "-"], b"");
    assert!(ran.stdout == fs::read(&model).unwrap());
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.ends_with(": written unchanged, a .pb\n"), "{said}");
    assert!(said.contains("within the maximum chunk size"), "{said}");
}

#[test]
fn what_would_be_cut_for_standard_output_is_shown_with_the_input_s_name() {
    let model = fixture("keras_mlp").join("saved_model.pb");
    let model = model.to_str().unwrap();
    let args = ["split", model, "-o", "-", "--dry-run", "--max-chunk-size"];
    let said = |args: &[&str]| String::from_utf8(done(piped(args, b""))).unwrap();
    let text = said(&[&args[..], &["20KiB"]].concat());
    assert!(text.contains("saved_model.pb: "), "{text}");
    let json = said(&[&args[..], &["20KiB", "--json"]].concat());
    assert!(json.contains("\"output\":null"), "{json}");
}

#[test]
fn what_reports_on_a_file_reports_on_standard_input() {
    let dir = Dir::new();
    let file = fixture("keras_mlp").join("saved_model.pb");
    let model = fs::read(&file).unwrap();
    let plain = file.to_str().unwrap();
    let typed = ["--message", "tensorflow.SavedModel"];
    let path = "saved_model_schema_version";
    for args in [
        vec!["tree", "-"],
        vec!["cat", "-", path],
        vec!["get", "-", path, "-o", "-"],
    ] {
        let with = |name: &'static str| {
            let args = args.iter().map(|arg| if *arg == "-" { name } else { arg });
            let args: Vec<_> = args.chain(typed).collect();
            (done(piped(&args, &model)), done(from_file(&args, &file)))
        };
        let (from_pipe, from_file) = with("-");
        assert_eq!(from_pipe, from_file);
        let mut named: Vec<_> = args.clone();
        named[1] = plain;
        named.extend(typed);
        let named = done(piped(&named, b""));
        if args[0] != "tree" {
            assert_eq!(from_pipe, named);
        }
        assert!(!from_pipe.is_empty());
    }
    assert_eq!(dir.files(), Vec::<String>::new());
}

#[test]
fn what_cannot_go_to_or_come_from_a_standard_stream_is_wrong_usage() {
    let model = fs::read(fixture("keras_mlp").join("saved_model.pb")).unwrap();
    let folder = fixture("keras_mlp");
    let folder = folder.to_str().unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["split", folder, "-o", "-"], "a folder"),
        (&["split", "-", "-o", "-", "--json"], "--json"),
        (
            &[
                "split",
                "-",
                "-o",
                "-",
                "--profile=extended",
                "--max-file-size=1GiB",
            ],
            "--max-file-size: standard output is one file",
        ),
        (&["merge", "-", "-o", "a.pb"], "one message, not in chunks"),
        (&["merge", "-", "-o", "-", "--json"], "--json"),
        (
            &["split", "-", "--message", "tensorflow.SavedModel"],
            "-o OUTPUT",
        ),
        (&["split", "-", "-o", "a"], "--message"),
    ];
    for (args, why) in cases {
        let ran = piped(args, &model);
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(ran.stdout.is_empty());
    }
}

#[test]
fn errors_call_standard_input_so_and_never_by_a_number() {
    let dir = Dir::new();
    let model = fixture("keras_mlp").join("saved_model.pb");
    let prefix = dir.path("m");
    let [model, prefix] = [&model, &prefix].map(|path| path.to_str().unwrap());
    let max = "--max-chunk-size=10KiB";
    done(piped(&["split", model, "-o", prefix, max], b""));
    let whole = fs::read(dir.path("m.cpb")).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    let out = dir.path("out.pb");
    let out = out.to_str().unwrap();
    for input in [&whole[..whole.len() - 9], &damaged] {
        for args in [
            &["merge", "-", "-o", out][..],
            &["verify", "-"],
            &["ls", "-"],
        ] {
            let ran = piped(args, input);
            let said = [ran.stdout, ran.stderr].concat();
            let said = String::from_utf8(said).unwrap();
            assert!(!said.contains("/dev/"), "{args:?}: {said}");
            assert!(
                ran.status.success() || said.contains("standard input"),
                "{args:?}: {said}"
            );
        }
    }
}

#[test]
fn a_type_that_only_the_file_knows_is_printed_and_read_by_it() {
    let dir = Dir::new();
    let proto = dir.file("layers.proto", LAYERS);
    let message = dir.file(
        "net.pb",
        [&b"\x0a\xd0\x0f"[..], &[7; 2000], b"\x12\x05dense"].concat(),
    );
    let prefix = dir.path("net");
    let folder = dir.path("");
    let [proto, message, prefix, folder] =
        [&proto, &message, &prefix, &folder].map(|path| path.to_str().unwrap());
    let split = [
        "split",
        message,
        "--proto",
        proto,
        "-I",
        folder,
        "--message",
        "net.Layer",
        "--max-chunk-size",
        "1KiB",
        "--embed-schema",
        "-o",
        prefix,
    ];
    done(piped(&split, b""));
    let chunked = format!("{prefix}.cpb");
    let text = |args: &[&str]| String::from_utf8(done(piped(args, b""))).unwrap();
    let schema = text(&["schema", &chunked]);
    assert!(
        schema.contains("message Layer") && schema.contains("bytes weights = 1;"),
        "{schema}"
    );
    assert_eq!(
        text(&["cat", &chunked, "name"]),
        text(&["get", &chunked, "name", "--format", "text"])
    );
    assert!(text(&["cat", &chunked, "name"]).contains("dense"));
    assert!(text(&["tree", &chunked]).contains("weights"));
}

const LAYERS: &str = "\
syntax = \"proto3\";
package net;
message Layer {
  bytes weights = 1;
  string name = 2;
}
";

/// Creates a named pipe, and starts a thread that writes `bytes` to it once it is opened.
fn named_pipe(dir: &Dir, name: &str, bytes: &[u8]) -> PathBuf {
    let pipe = dir.path(name);
    if !pipe.exists() {
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
    }
    let (bytes, target) = (bytes.to_vec(), pipe.clone());
    // The thread isn't joined, since it would wait forever if the command fails without opening the
    // pipe.
    std::thread::spawn(move || fs::write(target, bytes));
    pipe
}

#[test]
fn a_pipe_is_an_input_by_its_name_or_as_the_shell_makes_one() {
    let dir = Dir::new();
    let file = fixture("keras_mlp").join("saved_model.pb");
    let model = fs::read(&file).unwrap();
    let chunked = dir.split(&file, "small", &["--max-chunk-size", "20KiB"]);
    let bytes = fs::read(&chunked).unwrap();
    let (file, chunked) = (file.to_str().unwrap(), chunked.to_str().unwrap());

    // The input can also be a named pipe.
    let pipe = named_pipe(&dir, "pipe", &bytes);
    let pipe = pipe.to_str().unwrap();
    assert!(done(piped(&["merge", pipe, "-o", "-"], b"")) == model);
    named_pipe(&dir, "pipe", &bytes);
    let said = String::from_utf8(done(piped(&["verify", pipe], b""))).unwrap();
    assert!(said.contains(&format!("file     {pipe}\n")), "{said}");
    named_pipe(&dir, "pipe", &model);
    done(piped(&["verify", chunked, "--against", pipe], b""));
    named_pipe(&dir, "pipe", &bytes[..bytes.len() - 3]);
    let cut = piped(&["verify", pipe], b"");
    let said = String::from_utf8(cut.stderr).unwrap();
    assert!(said.starts_with(&format!("protosplit: {pipe}: ")), "{said}");
    let prefix = dir.path("again");
    let prefix = prefix.to_str().unwrap();
    let message = [
        "--message",
        "tensorflow.SavedModel",
        "--max-chunk-size",
        "20KiB",
    ];
    named_pipe(&dir, "pipe", &model);
    done(piped(
        &[&["split", pipe, "-o", prefix], &message[..]].concat(),
        b"",
    ));
    assert!(fs::read(dir.path("again.cpb")).unwrap() == bytes);
    named_pipe(&dir, "pipe", &model);
    let unnamed = piped(&[&["split", pipe], &message[..]].concat(), b"");
    let said = String::from_utf8(unnamed.stderr).unwrap();
    assert!(
        said.contains(&format!("{pipe}: name the output with -o")),
        "{said}"
    );

    // These names mean standard input, too.
    for name in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        assert!(
            done(piped(&["merge", name, "-o", "-"], &bytes)) == model,
            "{name}"
        );
        let said = String::from_utf8(done(piped(&["verify", name], &bytes))).unwrap();
        assert!(said.contains("file     standard input\n"), "{said}");
    }
    let twice = piped(&["diff", "-", "/dev/stdin"], b"");
    let said = String::from_utf8(twice.stderr).unwrap();
    assert!(said.contains("- can be given only once"), "{said}");

    // The shell passes two pipes as arguments.
    let script = r#"exec "$0" diff <(cat "$1") <(cat "$2")"#;
    let compared = Command::new("bash")
        .args([
            "-c",
            script,
            env!("CARGO_BIN_EXE_protosplit"),
            file,
            chunked,
        ])
        .output();
    match compared {
        Ok(ran) => assert!(String::from_utf8(done(ran)).unwrap().contains("/dev/fd/")),
        // The test is skipped on systems without bash.
        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
    }
}

#[test]
fn standard_input_is_not_read_again_for_another_value_or_message() {
    let dir = Dir::new();
    let model = fixture("keras_mlp").join("saved_model.pb");
    let model = model.to_str().unwrap();
    let out = dir.path("out.pb");
    let out = out.to_str().unwrap();
    let tag = "--insert-with=meta_graphs[0].meta_info_def.tags=-";
    let name = "tensorflow.SavedModel";
    let cases: [&[&str]; 3] = [
        &["edit", model, tag, tag, "-o", out],
        &["edit", "-", "--message", name, tag, "-o", out],
        &["verify", "-", "--against", "/dev/stdin"],
    ];
    for args in cases {
        let ran = piped(args, b"gpu");
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("- can be given only once"), "{said}");
    }
    assert_eq!(dir.files(), Vec::<String>::new());
}

/// Runs the command with standard output closed, and returns its exit status and standard error.
fn without_stdout(args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" >&-"]);
    command.arg(env!("CARGO_BIN_EXE_protosplit")).args(args);
    let ran = command.stdin(Stdio::null()).output().unwrap();
    (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
}

#[test]
fn a_result_for_a_standard_output_that_is_closed_is_an_error() {
    let dir = Dir::new();
    let model = fixture("keras_mlp").join("saved_model.pb");
    let chunked = dir.split(&model, "model", &["--max-chunk-size", "20KiB"]);
    let (model, chunked) = (model.to_str().unwrap(), chunked.to_str().unwrap());
    let version = "saved_model_schema_version";
    for args in [
        &["merge", chunked, "-o", "-"][..],
        &["split", model, "-o", "-"],
        &["get", model, version, "-o", "-"],
        &["cat", model, version],
        &["tree", model],
        &["info", chunked],
        &["info", chunked, "--json"],
        &["ls", chunked],
        &["verify", chunked],
        &["tensors", model],
        &["schema", chunked],
        &["--help"],
        &["--version"],
    ] {
        let (code, said) = without_stdout(args);
        assert_eq!(
            said, "protosplit: standard output: it is closed\n",
            "{args:?}"
        );
        assert_eq!(code, Some(2), "{args:?}");
    }
    // If the command prints nothing, closed standard output isn't an error.
    let back = dir.path("back.pb");
    let to_file = ["merge", chunked, "-o", back.to_str().unwrap(), "--quiet"];
    assert_eq!(without_stdout(&to_file), (Some(0), String::new()));
    assert!(fs::read(back).unwrap() == fs::read(model).unwrap());
}
