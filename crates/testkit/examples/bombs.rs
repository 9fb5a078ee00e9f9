//! Writes small files that claim large sizes to a folder, and prints the commands to try on each
//! file: `bombs FOLDER`. `tests/bombs/run.py` runs these commands.
#![allow(clippy::print_stdout, reason = "a tool of the tests")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use proto_splitter_testkit::bombs::{Scale, write};

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args().nth(1) else {
        println!("usage: bombs FOLDER");
        return Ok(());
    };
    let mut list = String::new();
    for bomb in write(Path::new(&folder), &Scale::WHOLE)? {
        for command in &bomb.commands {
            let _ = writeln!(list, "{}\t{}", bomb.name, command.join("\t"));
        }
    }
    fs::write(Path::new(&folder).join("list.tsv"), list)
}
