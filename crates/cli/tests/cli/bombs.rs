//! Tests with small files that claim to be huge. With limited memory, each command returns a
//! result, or an error on one line. `tests/bombs/run.sh` tries a hundred times as many files.

#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};

use proto_splitter_testkit::bombs::{Scale, write};

use crate::support::Dir;

/// Limit on the address space of a command, which includes its code, stacks and data, in KiB.
const MOST: u64 = 1 << 20;

#[test]
fn each_command_ends_on_each_bomb_with_an_answer_or_one_line_in_little_memory() {
    let dir = Dir::new();
    let bombs = write(&dir.path(""), &Scale::SMALL).unwrap();
    assert!(bombs.len() > 20);
    let (mut answered, mut refused) = (0, 0);
    for bomb in &bombs {
        for args in &bomb.commands {
            let working = Dir::new();
            let limited = format!("ulimit -v {MOST}; exec \"$@\"");
            let mut command = Command::new("sh");
            command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_protosplit")]);
            command.args(args).current_dir(working.path(""));
            let ran = command.stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr);
            let what = format!("{}: {args:?}: {}: {said}", bomb.name, ran.status);
            match ran.status.code() {
                Some(0) => answered += 1,
                Some(1 | 2) => {
                    refused += 1;
                    assert!(
                        said.lines().count() == 1 || ran.status.code() == Some(1),
                        "{what}"
                    );
                    assert!(!said.contains("panicked"), "{what}");
                }
                _ => panic!("{what}"),
            }
        }
    }
    assert!(answered > 100 && refused > 100, "{answered}, {refused}");
}
