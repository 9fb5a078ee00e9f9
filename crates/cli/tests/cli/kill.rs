//! Tests that kill conversions in place.

#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use proto_splitter::{ModelForm, SavedModelDir};

use crate::support::{Dir, files, fixture};

const KILLS: usize = 200;

fn convert(model: &Path, to: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_protosplit"));
    command
        .arg("convert")
        .arg(model)
        .args(["--in-place", "--to", to]);
    command.args(["--max-chunk-size", "256KiB", "--value-chunk-size", "64KiB"]);
    command.stdout(Stdio::null());
    command
}

fn field(number: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost_reflect::prost::encoding::encode_varint(number << 3 | 2, &mut bytes);
    prost_reflect::prost::encoding::encode_varint(content.len() as u64, &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

/// Creates a model with an additional meta graph. The model is so large that a conversion takes
/// some time.
fn large_model(dir: &Dir) -> Vec<u8> {
    let mut bytes = fs::read(fixture("functions_consts/saved_model.pb")).unwrap();
    let mut nodes = Vec::new();
    for at in 0..16_u8 {
        let content = field(4, &vec![at; 200_000]);
        let value = field(2, &field(8, &content));
        let attr = field(5, &[field(1, b"value"), value].concat());
        nodes.extend(field(
            1,
            &[field(1, &[b'a' + at]), field(2, b"Const"), attr].concat(),
        ));
    }
    bytes.extend(field(2, &field(2, &nodes)));
    fs::create_dir(dir.path("model")).unwrap();
    dir.file("model/saved_model.pb", &bytes);
    dir.copy(
        &fixture("functions_consts/fingerprint.pb"),
        "model/fingerprint.pb",
    );
    bytes
}

/// Returns the bytes of a model's message, which may be in one piece or in chunks.
fn content(model: &Path) -> Vec<u8> {
    let to = tempfile::tempdir().unwrap();
    let dir = SavedModelDir::open(model).unwrap();
    let options = proto_splitter::SaveOptions::new().keep_fingerprint(true);
    dir.save(to.path(), &options).unwrap();
    fs::read(to.path().join("saved_model.pb")).unwrap()
}

#[test]
fn killed_at_any_moment_the_model_is_there_and_the_next_run_finishes() {
    let dir = Dir::new();
    let expected = large_model(&dir);
    let model = dir.path("model");
    let started = Instant::now();
    assert!(convert(&model, "cpb").status().unwrap().success());
    let whole_run = started.elapsed();
    let (mut killed, mut side_by_side) = (0, 0);
    let mut to = "pb";
    // The factor and the number of kills are coprime, so each moment occurs once, in mixed order.
    for kill in 0..KILLS {
        let mut child = convert(&model, to).stderr(Stdio::null()).spawn().unwrap();
        let share = u32::try_from(kill * 73 % KILLS).unwrap();
        sleep(whole_run * share / u32::try_from(KILLS).unwrap());
        child.kill().unwrap();
        let done = child.wait().unwrap().success();
        killed += usize::from(!done);
        let forms = ["cpb", "pb"].map(|form| model.join(format!("saved_model.{form}")).is_file());
        assert!(forms[0] || forms[1]);
        side_by_side += usize::from(forms == [true, true]);
        assert!(content(&model) == expected, "after kill {kill}, to {to}");
        if done || kill % 3 == 0 {
            let ran = convert(&model, to).output().unwrap();
            assert!(
                ran.status.success(),
                "{}",
                String::from_utf8_lossy(&ran.stderr)
            );
            let now = SavedModelDir::open(&model).unwrap();
            assert_eq!(now.form() == ModelForm::Plain, to == "pb");
            assert_eq!(
                now.fingerprint().unwrap(),
                now.stored_fingerprint().unwrap().unwrap()
            );
            let name = format!("saved_model.{to}");
            assert_eq!(
                files(&model),
                ["fingerprint.pb", name.as_str()],
                "nothing is left over"
            );
            assert!(content(&model) == expected);
            to = if to == "pb" { "cpb" } else { "pb" };
        }
    }
    // If this fails, the machine was too fast or too slow for the test to be meaningful.
    let seen = format!("{killed} of {KILLS} were killed, {side_by_side} left both forms");
    assert!(killed > KILLS / 4 && side_by_side > 0, "{seen}");
}

/// Runs `externalize --in-place`, and kills the process at the `number`th system call of the given
/// name.
#[cfg(target_os = "linux")]
fn externalize_killed(
    model: &Path,
    more: &[&str],
    call: &str,
    number: usize,
) -> std::process::ExitStatus {
    let inject = format!("inject={call}:signal=KILL:when={number}");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject]);
    command.arg(env!("CARGO_BIN_EXE_protosplit"));
    command.args(["externalize", "--in-place", "--min-size", "1KiB"]);
    command
        .args(more)
        .arg(model)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn externalize_in_place_killed_at_any_change_of_a_name_is_finished_by_the_next_run() {
    let can_trace = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "true"])
        .stderr(Stdio::null())
        .status();
    if !can_trace.is_ok_and(|status| status.success()) {
        return;
    }
    let source = SavedModelDir::open(fixture("functions_consts")).unwrap();
    let split = proto_splitter::split::SplitOptions::new().max_chunk_size(20 << 10);
    let save = proto_splitter::SaveOptions::new().split(split);
    let prepare = |dir: &Dir, chunked: bool| {
        let model = dir.path("model");
        if chunked {
            source.save_as_chunked(&model, &save).unwrap();
        } else {
            source
                .save_as(&model, proto_splitter::TargetForm::Plain, &save)
                .unwrap();
        }
        model
    };
    let again = |model: &Path, more: &[&str]| {
        let words: [&dyn AsRef<Path>; 5] = [
            &"externalize",
            &"--in-place",
            &"--min-size",
            &"1KiB",
            &model,
        ];
        let more = more.iter().map(|word| word as &dyn AsRef<Path>);
        crate::support::run_all(words.into_iter().chain(more))
    };
    let mut killed = 0;
    for (chunked, more) in [(true, &[][..]), (false, &[]), (false, &["--mmap"])] {
        let done = Dir::new();
        let model = prepare(&done, chunked);
        assert_eq!(again(&model, more).exit, protosplit_cli::Exit::Done);
        let expected = files(&model);
        // With `--mmap`, the model contains the absolute paths of its own files, which differ
        // between copies of the model. Therefore, only the mapped files are compared.
        let is_same = |file: &&String| more.is_empty() || file.contains("mapped/");
        let bytes = |model: &Path| {
            let bytes = expected.iter().filter(is_same);
            let bytes = bytes.map(|file| fs::read(model.join(file)).unwrap());
            bytes.collect::<Vec<_>>()
        };
        let whole = bytes(&model);
        for call in [
            "mkdir",
            "rename",
            "renameat",
            "renameat2",
            "linkat",
            "unlink",
            "unlinkat",
            "fsync",
        ] {
            for number in 1.. {
                let dir = Dir::new();
                let model = prepare(&dir, chunked);
                if externalize_killed(&model, more, call, number).success() {
                    break;
                }
                killed += 1;
                let what = format!("chunked {chunked}, {more:?}, {call} {number}");
                let ran = again(&model, more);
                assert_eq!(ran.exit, protosplit_cli::Exit::Done, "{what}: {ran:?}");
                let mut left = files(&model);
                left.retain(|file| !file.contains(".protosplit-"));
                assert_eq!(left, expected, "{what}");
                assert!(bytes(&model) == whole, "{what}");
                let back = dir.path("back");
                let words: [&dyn AsRef<Path>; 4] = [&"internalize", &model, &"-o", &back];
                let ran = crate::support::run(words);
                assert_eq!(ran.exit, protosplit_cli::Exit::Done, "{what}: {ran:?}");
            }
        }
    }
    assert!(killed > 16, "{killed}");
}
