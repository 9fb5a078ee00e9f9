//! Tests with a limit on the size of files, which has the same effect as a full disk.

use std::process::{Command, Stdio};

use super::scenarios::{SCENARIOS, Scenario};
use crate::support::Dir;

/// Runs a verb with files limited to one block. Returns true if it succeeded, and what it printed
/// to standard error.
fn run_without_room(scenario: &Scenario, dir: &Dir) -> (bool, String) {
    let mut command = Command::new("sh");
    // Since SIGXFSZ is ignored, a write beyond the limit fails as on a full disk.
    command.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\""]);
    command
        .arg(env!("CARGO_BIN_EXE_protosplit"))
        .args(scenario.args);
    command.current_dir(dir.path("")).stdin(Stdio::null());
    let ran = command.output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    (ran.status.success(), said)
}

/// Returns the beginnings of names, one of which must be in the error message.
fn named(scenario: &Scenario, dir: &Dir) -> Vec<String> {
    let beside = |name: &str| vec![name.to_owned(), dir.path(name).display().to_string()];
    match scenario.args {
        // An external data file is written before the model that refers to it.
        ["convert", _, "-o", to, "--to", "external", ..] => beside(&format!("{to}.data")),
        ["convert", from, "--in-place", ..] => beside(&format!("{from}/saved_model.")),
        // The output is written to a temporary folder, which is renamed once it is complete.
        ["convert", ..] => beside(".protosplit-"),
        ["split", "--plan", ..] => beside("m."),
        ["merge", "--plan", ..] => beside(".protosplit-"),
        args => {
            let at = args.iter().position(|arg| *arg == "-o").unwrap();
            beside(args[at + 1])
        }
    }
}

/// Returns true if `text` begins with `name`, and the name isn't part of a longer word.
fn begins_with(text: &str, name: &str) -> bool {
    let rest = text.strip_prefix(name);
    rest.is_some_and(|rest| {
        !name.ends_with(char::is_alphanumeric) || !rest.starts_with(char::is_alphanumeric)
    })
}

#[test]
fn a_verb_that_finds_no_room_names_the_file_that_it_writes() {
    let mut failed = 0;
    for scenario in &SCENARIOS {
        let dir = Dir::new();
        (scenario.prepare)(&dir);
        let old = (scenario.read)(&dir);
        let (is_done, said) = run_without_room(scenario, &dir);
        if is_done {
            // Only committing the parts of a merge succeeds, since it writes nothing.
            assert!(scenario.args.contains(&"--commit"), "{}", scenario.name);
            continue;
        }
        let names = named(scenario, &dir);
        let is_named = |said: &str| names.iter().any(|name| begins_with(said, name));
        assert!(said.split(": ").any(is_named), "{}: {said}", scenario.name);
        assert!((scenario.read)(&dir) == old, "{}", scenario.name);
        failed += 1;
    }
    assert!(failed > 15, "{failed}");
}
