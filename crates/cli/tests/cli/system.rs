//! Tests for limits of the system (on threads, file sizes and modes), and for signals that end a
//! waiting command.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{Dir, fixture, run, run_all};

fn model(dir: &Dir) {
    dir.copy(&fixture("keras_mlp").join("saved_model.pb"), "a.pb");
    let pb = dir.path("a.pb");
    dir.split(
        &pb,
        "m",
        &[
            "--message",
            "tensorflow.SavedModel",
            "--max-chunk-size",
            "8KiB",
        ],
    );
}

/// Runs the command in a shell, after the commands in `before`.
fn in_shell(dir: &Dir, before: &str, arguments: &str) -> Output {
    let script = format!(
        "{before}; exec {} {arguments}",
        env!("CARGO_BIN_EXE_protosplit")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(dir.path(""));
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn where_threads_cannot_begin_the_work_is_done_without_them() {
    let dir = Dir::new();
    model(&dir);
    // With this limit, there isn't enough memory for the stacks of many threads.
    let most = if cfg!(target_os = "linux") {
        "ulimit -v 200000"
    } else {
        "true"
    };
    for threads in ["3", "300", "1000000"] {
        for (name, command) in [
            (
                "out.cpb",
                "split a.pb --message tensorflow.SavedModel -o out --max-chunk-size 8KiB",
            ),
            ("out.pb", "merge m.cpb -o out.pb"),
        ] {
            let ran = in_shell(&dir, most, &format!("{command} --threads {threads}"));
            assert!(ran.status.success(), "{threads}, {command}: {ran:?}");
            let expected = if name == "out.pb" { "a.pb" } else { "m.cpb" };
            let [made, expected] = [name, expected].map(|name| fs::read(dir.path(name)).unwrap());
            assert!(made == expected, "{threads}, {command}");
            fs::remove_file(dir.path(name)).unwrap();
        }
        let verified = in_shell(&dir, most, &format!("verify m.cpb --threads {threads}"));
        assert!(verified.status.success(), "{verified:?}");
    }
}

#[test]
fn a_file_that_may_not_grow_is_an_error_whether_its_signal_is_ignored_or_not() {
    let dir = Dir::new();
    model(&dir);
    fs::write(dir.path("value"), vec![b'v'; 100_000]).unwrap();
    let before = dir.files();
    for ignored in ["trap '' XFSZ; ", ""] {
        for command in [
            "split a.pb --message tensorflow.SavedModel -o out --max-chunk-size 8KiB --compression none",
            "split a.pb --message tensorflow.SavedModel -o out --compression none --profile extended --max-file-size 64KiB",
            "merge m.cpb -o out.pb",
            "recompress m.cpb -o out.cpb --compression none",
            "replace m.cpb meta_graphs[0].graph_def.node[0].name --with value -o out.cpb --compression none",
            "get m.cpb . -o out",
        ] {
            let ran = in_shell(&dir, &format!("{ignored}ulimit -f 2"), command);
            assert_eq!(ran.status.code(), Some(2), "{ignored}{command}: {ran:?}");
            assert_eq!(dir.files(), before, "{ignored}{command}");
        }
    }
}

#[test]
fn what_is_made_of_a_private_file_is_private_and_what_is_there_keeps_its_mode() {
    let dir = Dir::new();
    model(&dir);
    let set = |name: &str, mode: u32| {
        fs::set_permissions(dir.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |name: &str| fs::metadata(dir.path(name)).unwrap().permissions().mode() & 0o777;
    set("a.pb", 0o600);
    set("m.cpb", 0o600);
    dir.file("value", "v");
    let of_type = ["--message", "tensorflow.SavedModel"];
    let at = "meta_graphs[0].graph_def.node[0].name";
    let commands: [&[&str]; 7] = [
        &[
            "split",
            "a.pb",
            of_type[0],
            of_type[1],
            "-o",
            "out",
            "--max-chunk-size",
            "8KiB",
        ],
        &["merge", "m.cpb", "-o", "out.cpb"],
        &[
            "recompress",
            "m.cpb",
            "-o",
            "out.cpb",
            "--compression",
            "none",
        ],
        &["replace", "m.cpb", at, "--with", "value", "-o", "out.cpb"],
        &["get", "m.cpb", "meta_graphs[0]", "-o", "out.cpb"],
        &[
            "get",
            "a.pb",
            "meta_graphs[0]",
            of_type[0],
            of_type[1],
            "-o",
            "out.cpb",
        ],
        &[
            "export",
            "a.pb",
            of_type[0],
            of_type[1],
            "-o",
            "out.cpb",
            "--format",
            "safetensors",
        ],
    ];
    for command in commands {
        let ran = in_shell(&dir, "umask 022", &command.join(" "));
        assert!(ran.status.success(), "{command:?}: {ran:?}");
        assert_eq!(mode("out.cpb"), 0o600, "{command:?}");
        set("out.cpb", 0o640);
        let ran = in_shell(
            &dir,
            "umask 022",
            &[command, &["--force"]].concat().join(" "),
        );
        assert!(ran.status.success(), "{command:?}: {ran:?}");
        assert_eq!(mode("out.cpb"), 0o640, "{command:?}");
        fs::remove_file(dir.path("out.cpb")).unwrap();
    }
    fs::create_dir(dir.path("model")).unwrap();
    fs::copy(dir.path("a.pb"), dir.path("model/saved_model.pb")).unwrap();
    set("model/saved_model.pb", 0o600);
    let to = dir.path("model");
    let cpb: [&dyn AsRef<Path>; 7] = [
        &"convert",
        &to,
        &"--in-place",
        &"--to",
        &"cpb",
        &"--max-chunk-size",
        &"8KiB",
    ];
    run_all(cpb).ok();
    assert_eq!(mode("model/saved_model.cpb"), 0o600);
    run([&"convert", &to, &"--in-place", &"--to", &"pb"]).ok();
    assert_eq!(mode("model/saved_model.pb"), 0o600);
}

#[test]
fn one_signal_ends_what_waits_for_its_input() {
    let dir = Dir::new();
    model(&dir);
    let before = dir.files();
    for command in [
        "split - --message tensorflow.SavedModel -o out",
        "merge - -o out.pb",
        "get - versions",
        "replace m.cpb meta_graphs[0].graph_def.node[0].name --with - -o out.cpb",
        "tree -",
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_protosplit"))
            .args(command.split(' '))
            .current_dir(dir.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // After reading these bytes, the command waits for more input.
        let mut pipe = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut pipe, &[8; 200_000]).unwrap();
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        // If the signal didn't end the command, it would wait forever, since its input is still
        // open here.
        assert_eq!(child.wait().unwrap().signal(), Some(15), "{command}");
        drop(pipe);
        assert_eq!(dir.files(), before, "{command}");
    }
}

#[test]
fn no_name_in_a_file_speaks_to_the_terminal() {
    let dir = Dir::new();
    // The name of a node contains characters that clear the screen, and reverse the text after
    // them.
    let name = "n\u{1b}[2J\u{202e}x";
    let field = |number: u8, content: &[u8]| {
        [
            &[number << 3 | 2, u8::try_from(content.len()).unwrap()],
            content,
        ]
        .concat()
    };
    let attr = |value: &[u8]| {
        field(
            5,
            &[&field(1, name.as_bytes())[..], &field(2, value)].concat(),
        )
    };
    let tensor = [&[8, 1, 18, 0][..], &field(4, &[0; 4])].concat();
    let node = [
        field(1, name.as_bytes()),
        field(2, b"Const"),
        attr(&field(8, &tensor)),
    ]
    .concat();
    let graph = field(1, &node);
    let file = dir.file("n\u{1b}[2J\u{202e}x.pb", graph.repeat(3));
    let of_type: [&dyn AsRef<Path>; 2] = [&"--message", &"tensorflow.GraphDef"];
    let split = dir.split(
        &file,
        "s\u{202e}\u{7}",
        &["--message", "tensorflow.GraphDef", "--max-chunk-size", "30"],
    );
    let shows = |command: &[&dyn AsRef<Path>]| {
        let ran = run_all(command.iter().copied());
        for text in [&ran.out, &ran.err] {
            let harm = text
                .chars()
                .find(|&c| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c));
            assert_eq!(harm, None, "{text:?}");
        }
    };
    for verb in ["tree", "tensors", "verify", "ls", "info"] {
        shows(&[&verb, &split]);
    }
    for verb in ["tree", "tensors"] {
        shows(&[&verb, &file, of_type[0], of_type[1]]);
    }
    shows(&[&"get", &file, &"node[9].name", of_type[0], of_type[1]]);
    shows(&[
        &"get",
        &file,
        &"node[name=\"none\"]",
        of_type[0],
        of_type[1],
    ]);
    shows(&[&"diff", &file, &split]);
    shows(&[&"merge", &file, &"-o", &dir.path("\u{1b}[2J/\u{202e}")]);
}

#[test]
fn a_folder_that_may_be_written_to_but_not_read_is_no_reason_to_fail() {
    use std::os::unix::fs::{MetadataExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let dir = Dir::new();
    model(&dir);
    fs::create_dir(dir.path("out")).unwrap();
    // The superuser may read any folder, so if the test runs as superuser, the command runs as
    // another user.
    let is_super = fs::metadata(dir.path("out")).unwrap().uid() == 0;
    let protosplit = |command: &str| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_protosplit"));
        run.args(command.split(' ')).current_dir(dir.path(""));
        if is_super {
            run.uid(NOBODY);
        }
        run.output()
    };
    if is_super {
        let root = dir.path("");
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        chown(dir.path("out"), Some(NOBODY), None).unwrap();
        if protosplit("--version").is_err() {
            return;
        }
    }
    fs::set_permissions(dir.path("out"), fs::Permissions::from_mode(0o300)).unwrap();
    for command in [
        "merge m.cpb -o out/whole.pb",
        "split a.pb --message tensorflow.SavedModel -o out/one --max-chunk-size 8KiB",
        "split a.pb --message tensorflow.SavedModel -o out/many --max-chunk-size 8KiB --profile extended --max-file-size 16KiB",
        "recompress m.cpb -o out/other.cpb --compression none",
        "get m.cpb . -o out/part",
    ] {
        let ran = protosplit(command).unwrap();
        assert!(ran.status.success(), "{command}: {ran:?}");
    }
    fs::set_permissions(dir.path("out"), fs::Permissions::from_mode(0o700)).unwrap();
    let whole = fs::read(dir.path("a.pb")).unwrap();
    assert!(fs::read(dir.path("out/whole.pb")).unwrap() == whole);
    for name in ["one", "many", "other"] {
        let merged = dir.path(&format!("{name}.pb"));
        run([&"merge", &dir.path(&format!("out/{name}")), &"-o", &merged]).ok();
        assert!(fs::read(merged).unwrap() == whole, "{name}");
    }
}
