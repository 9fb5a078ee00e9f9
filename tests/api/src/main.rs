//! Compares the public API of crates with the committed lists, or rewrites the lists.
//!
//! ```text
//! api-lists LISTS DOCS [--record]
//! ```
//!
//! `LISTS` is a folder with one file for each crate, which has one line for each public item.
//! `DOCS` is a folder with rustdoc's JSON output for the crates.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

type Error = Box<dyn std::error::Error>;

/// Auto traits, and a marker trait of the compiler. Their implementations aren't listed, except
/// that a type without the first or the second trait is.
const AUTOMATIC: [&str; 8] = [
    "Send",
    "Sync",
    "Unpin",
    "Freeze",
    "UnwindSafe",
    "RefUnwindSafe",
    "UnsafeUnpin",
    "StructuralPartialEq",
];

/// Returns true for an item that is generated from a schema. Another test compares generated code
/// with the schema.
fn is_generated(line: &str) -> bool {
    let subject = match line.split_once(" for ") {
        Some((_, subject)) if line.starts_with("impl") => subject,
        _ => &line[line.find("crate::").unwrap_or(0)..],
    };
    subject.starts_with("crate::proto::")
}

/// Returns the public items of a crate, one per line. Omits the functions in implementations of a
/// trait, since the lines of the trait list them.
fn items(json: &Path, name: &str) -> Result<Vec<String>, Error> {
    let builder = public_api::Builder::from_rustdoc_json(json).omit_blanket_impls(true);
    let (mut lines, mut is_in_impl_of_trait) = (Vec::new(), false);
    for item in builder.build()?.items() {
        let line = item.to_string();
        let is_function = line.starts_with("pub fn ") || line.starts_with("pub unsafe fn ");
        if line.starts_with("impl") {
            is_in_impl_of_trait = line.contains(" for ");
        } else if !is_function && !line.starts_with("pub type ") && !line.starts_with("pub const ")
        {
            is_in_impl_of_trait = false;
        }
        let is_automatic = AUTOMATIC
            .iter()
            .any(|name| line.contains(&format!("::{name} for ")));
        let lacks_a_trait = ["!core::marker::Send for ", "!core::marker::Sync for "]
            .iter()
            .any(|text| line.contains(text));
        // The line for an inherent impl is redundant, since its functions have lines, too.
        let is_plain_impl = line.starts_with("impl ") && !line.contains(" for ");
        let is_of_trait = is_in_impl_of_trait && is_function;
        if lacks_a_trait || !(is_automatic || is_plain_impl || is_of_trait) {
            let line = line.replace(&format!("{name}::"), "crate::");
            if !is_generated(&line) {
                lines.push(line);
            }
        }
    }
    Ok(lines)
}

/// Returns the lines that occur more often in `one` than in `other`.
fn missing<'a>(one: &'a [String], other: &[String]) -> Vec<&'a str> {
    let mut counts = HashMap::<&str, usize>::new();
    for line in other {
        *counts.entry(line).or_default() += 1;
    }
    let mut lines = Vec::new();
    for line in one {
        match counts.get_mut(line.as_str()) {
            Some(count) if *count > 0 => *count -= 1,
            _ => lines.push(line.as_str()),
        }
    }
    lines
}

fn run() -> Result<bool, Error> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let (lists, docs, record) = match &arguments[..] {
        [lists, docs] => (lists, docs, false),
        [lists, docs, option] if option.as_os_str() == "--record" => (lists, docs, true),
        _ => return Err("expected LISTS DOCS [--record]".into()),
    };
    let mut paths = std::fs::read_dir(lists)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<PathBuf>, Error>>()?;
    paths.sort();
    let (mut count, mut is_same) = (0, true);
    for path in &paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let module = name.replace('-', "_");
        let json = docs.join(format!("{module}.json"));
        let now = items(&json, &module).map_err(|error| format!("{}: {error}", json.display()))?;
        count += now.len();
        if record {
            std::fs::write(path, now.join("\n") + "\n")?;
            continue;
        }
        let before: Vec<String> = std::fs::read_to_string(path)?
            .lines()
            .map(ToString::to_string)
            .collect();
        if now != before {
            is_same = false;
            println!("the public API of {name} differs from {}:", path.display());
            for line in missing(&before, &now) {
                println!("- {line}");
            }
            for line in missing(&now, &before) {
                println!("+ {line}");
            }
        }
    }
    println!("{count} public items of {} crates", paths.len());
    Ok(is_same)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            println!(
                "a line with - breaks callers; write the lists again with `.ci/api --record`, and name what breaks in CHANGELOG.md"
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("api-lists: {error}");
            ExitCode::FAILURE
        }
    }
}
