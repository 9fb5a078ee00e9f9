//! A test that runs the commands shown in the documentation, and compares their output.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Dir, fixture};

/// Returns the commands shown on a page, each with the output shown.
fn commands(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("```console\n").skip(1);
    let blocks = blocks.filter_map(|block| Some(block.split_once("```")?.0));
    let steps = blocks.flat_map(|block| block.split("$ ").skip(1));
    steps.filter_map(|step| step.split_once('\n')).collect()
}

#[test]
fn the_page_on_models_that_are_too_big_shows_what_is_printed() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/my-model-is-too-big.md");
    let page = fs::read_to_string(page).unwrap();
    let dir = Dir::new();
    let binary = Path::new(env!("CARGO_BIN_EXE_protosplit"));
    let mut path = vec![binary.parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let run = |command: &str| {
        let ran = Command::new("sh")
            .args(["-c", &format!("{command} 2>&1")])
            .current_dir(dir.path(""))
            .env("PATH", std::env::join_paths(&path).unwrap())
            .output()
            .unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    let model = fixture("functions_consts");
    assert_eq!(run(&format!("cp -r '{}' model", model.display())), "");
    let commands = commands(&page);
    assert!(commands.len() >= 8, "{commands:?}");
    for (command, expected) in commands {
        let said = run(command);
        match expected.strip_suffix("...\n") {
            Some(beginning) => assert!(said.starts_with(beginning), "$ {command}\n{said}"),
            None => assert_eq!(said, expected, "$ {command}"),
        }
    }
}
