//! Tests of behavior that requires a separate process: exit status, streams, and names that aren't
//! Unicode.

use std::io::pipe;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Dir, fixture};

fn protosplit() -> Command {
    Command::new(env!("CARGO_BIN_EXE_protosplit"))
}

#[test]
fn the_status_says_how_it_ended() {
    let dir = Dir::new();
    let bad = dir.file("bad.cpb", [0; 200]);
    let status = |args: &[&str]| {
        let ran = protosplit().args(args).output().unwrap();
        (
            ran.status.code().unwrap(),
            String::from_utf8(ran.stdout).unwrap(),
            String::from_utf8(ran.stderr).unwrap(),
        )
    };
    let model = fixture("keras_mlp");
    let (code, out, err) = status(&["info", model.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("tensorflow.SavedModel"));
    let (code, out, err) = status(&["info", bad.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        err.starts_with("protosplit: ") && err.lines().count() == 1,
        "{err}"
    );
    for wrong in [
        &["frobnicate"][..],
        &["split"],
        &["info", "/nowhere"],
        &["merge", "/nowhere"],
        &["info", "--jsn", "a"],
    ] {
        let (code, out, err) = status(wrong);
        assert_eq!((code, out.as_str()), (2, ""), "{wrong:?}");
        assert!(err.starts_with("protosplit: "), "{err}");
        assert!(err.ends_with('\n') && err.lines().count() == 1, "{err}");
    }
    let missing = status(&["merge"]).2;
    assert!(missing.contains("--output <OUTPUT>, <INPUT>; see `protosplit merge --help`"));
    let mistyped = status(&["info", "--jsn", "a"]).2;
    assert!(mistyped.contains("'--jsn'") && mistyped.contains("'--json'"));
    let (code, out, _) = status(&["--version"]);
    assert_eq!(
        (code, out),
        (0, format!("protosplit {}\n", env!("CARGO_PKG_VERSION")))
    );
}

#[test]
fn a_pipe_that_nobody_reads_is_no_error() {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let ran = protosplit()
        .arg("info")
        .arg(fixture("keras_mlp"))
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(
        (ran.status.code(), ran.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_the_output_is_an_error() {
    let dir = Dir::new();
    let model = fixture("keras_mlp/saved_model.pb");
    let small = dir.path("small");
    let split = |target: &Path| {
        let mut split = protosplit();
        split.args(["split", "--max-chunk-size=20KiB", "-o"]);
        split.arg(target).arg(&model);
        split
    };
    assert!(split(&small).output().unwrap().status.success());
    let mut merge = protosplit();
    merge.args(["merge", "-o", "-"]).arg(&small);
    let mut get = protosplit();
    get.arg("get").arg(&small).arg("");
    let mut info = protosplit();
    info.arg("info").arg(&small);
    for mut command in [info, split(Path::new("-")), merge, get] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let ran = command.stdout(full).stderr(Stdio::piped()).output();
        let ran = ran.unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{command:?}: {said}");
        assert!(said.starts_with("protosplit: standard output: "), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_no_unicode_are_fine() {
    use std::os::unix::ffi::OsStrExt;
    let dir = Dir::new();
    let name = std::ffi::OsStr::from_bytes(b"mod\xffel");
    let prefix = dir.path("").join(name);
    let ran = protosplit()
        .args(["split", "--json", "--max-chunk-size", "10KiB", "-o"])
        .arg(&prefix)
        .arg(fixture("keras_mlp/saved_model.pb"))
        .output()
        .unwrap();
    assert_eq!(
        (ran.status.code(), ran.stderr.as_slice()),
        (Some(0), &b""[..])
    );
    assert!(
        String::from_utf8(ran.stdout)
            .unwrap()
            .contains("mod\u{fffd}el.cpb")
    );
    let ran = protosplit().arg("verify").arg(&prefix).output().unwrap();
    assert_eq!(ran.status.code(), Some(0));
}

/// Checks that options that require a file or folder reject a pipe at once, without waiting for
/// input.
#[cfg(unix)]
#[test]
fn a_pipe_is_not_waited_for_where_a_folder_is_meant() {
    let dir = Dir::new();
    let pipe = dir.path("pipe.pb");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let pipe = pipe.to_str().unwrap();
    for args in [&["convert", pipe, "--in-place"][..], &["fingerprint", pipe]] {
        let mut child = protosplit()
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let started = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() {
            if started.elapsed().as_secs() > 20 {
                child.kill().unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let ran = child.wait_with_output().unwrap();
        let err = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains("pipe.pb"), "{args:?}: {err}");
    }
}
