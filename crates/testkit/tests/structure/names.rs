//! Tests of the names of files and types.
//!
//! A file's name must share a word with at least one type in the file. Words that are inflections
//! of each other, such as `find` and `Finder`, count as shared. The rule applies to files that
//! provide other modules with types, but not with functions, and that have no submodules. Other
//! files may be named after their functions, as in `file::function`, or after their submodules.
//!
//! In addition, no two types that a crate exports may have the same name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::modules::Crate;
use crate::{crate_name, crate_roots, written};

/// Files that are exempt from the rule, each with the reason for its name.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "core: container/chunk_tree/build.rs",
        "`ChunkTree::build`, with the options that only it takes",
    ),
    ("core: error/newtypes.rs", "the usual word for such types"),
    (
        "record-file: codec/brotli.rs",
        "every codec has an `Encoder` and a `Decoder`",
    ),
    ("testkit: sources.rs", "each type is a kind of source"),
];

/// Returns the words in a snake case or camel case name, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_new = true;
    let letters: Vec<char> = name.chars().collect();
    for (at, &letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let after = letters.get(at + 1);
        // In a sequence of capitals, the last one begins a new word if a lowercase letter follows.
        let is_start = letter.is_uppercase()
            && (before.is_some_and(|before| !before.is_uppercase())
                || after.is_some_and(|after| after.is_lowercase()));
        if letter == '_' {
            is_new = true;
            continue;
        }
        if is_new || is_start {
            words.push(String::new());
        }
        is_new = false;
        let word = words.last_mut().unwrap();
        word.extend(letter.to_lowercase());
    }
    words
}

/// Returns true if two words are equal, or are inflections of each other.
fn are_related(a: &str, b: &str) -> bool {
    let shared = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let shorter = a.len().min(b.len());
    a.trim_end_matches('s') == b.trim_end_matches('s') || shared >= 4 && shared + 2 >= shorter
}

/// Returns true if the name of a type shares a word with the name of a file.
fn bears_name(name: &str, file: &str) -> bool {
    let (name, file) = (words(name), words(file));
    let mut pairs = name.iter().flat_map(|a| file.iter().map(move |b| (a, b)));
    name.concat() == file.concat() || pairs.any(|(a, b)| are_related(a, b))
}

/// Returns the files in a crate that don't share a word with any of their types.
fn misnamed(root: &Path) -> Vec<String> {
    let sources = Crate::read(root);
    let mut found = Vec::new();
    for (at, module) in sources.modules.iter().enumerate() {
        let Some(parent) = module.parent else {
            continue;
        };
        // A module that is declared inside another module's file has no file name.
        let is_inline = sources.modules[parent].file == module.file;
        let is_named = |name: &String| bears_name(name, &module.name);
        if !is_inline
            && !sources.has_children(at)
            && !module.has_functions
            && !module.types.is_empty()
            && !module.types.iter().any(is_named)
        {
            found.push(format!("{}: {}", module.file, module.types.join(", ")));
        }
    }
    found
}

/// Returns the names that a crate exports for several types, each with the files that define the
/// types.
fn ambiguous(root: &Path) -> Vec<String> {
    let sources = Crate::read(root);
    let mut files: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (at, module) in sources.modules.iter().enumerate() {
        let mut outer = std::iter::successors(Some(at), |&at| sources.modules[at].parent);
        if !outer.all(|at| sources.modules[at].is_public) {
            continue;
        }
        for export in &module.exports {
            let Some((definition, name)) = sources.definition(at, export) else {
                continue;
            };
            let definition = &sources.modules[definition];
            if definition.types.contains(&name) {
                let files = files.entry(export.clone()).or_default();
                files.insert(&definition.file);
            }
        }
    }
    let several = files.into_iter().filter(|(_, files)| files.len() > 1);
    several
        .map(|(name, files)| format!("{name}: {}", Vec::from_iter(files).join(", ")))
        .collect()
}

#[test]
fn types_bear_the_names_of_their_files() {
    let mut found = Vec::new();
    for root in crate_roots() {
        let name = crate_name(&root);
        let files = misnamed(&root).into_iter();
        found.extend(files.map(|file| format!("{name}: {file}")));
    }
    let is_excepted = |found: &String, file: &str| found.rsplit_once(": ").unwrap().0 == file;
    let unused: Vec<&str> = EXCEPTIONS
        .iter()
        .map(|(file, _)| *file)
        .filter(|file| !found.iter().any(|found| is_excepted(found, file)))
        .collect();
    found.retain(|found| !EXCEPTIONS.iter().any(|(file, _)| is_excepted(found, file)));
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    assert!(unused.is_empty(), "no exceptions any more: {unused:?}");
}

#[test]
fn no_crate_exports_two_types_of_one_name() {
    let mut found = Vec::new();
    for root in crate_roots() {
        let name = crate_name(&root);
        let names = ambiguous(&root).into_iter();
        found.extend(names.map(|types| format!("{name}: {types}")));
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn a_file_whose_types_have_other_names_is_found() {
    let (_folder, root) = written(&[
        ("lib.rs", "mod tails;\nmod find;\nmod tree;\nmod grid;\n"),
        ("tails.rs", "pub(crate) struct Turns;\nstruct Tails;\n"),
        ("find.rs", "pub(crate) struct Finder;\npub struct Other;\n"),
        ("tree.rs", "pub struct Turns;\npub fn tree() {}\n"),
        ("grid.rs", "mod cell;\npub struct Other;\n"),
        ("grid/cell.rs", "pub struct GridCells;\n"),
    ]);
    assert_eq!(misnamed(&root), ["tails.rs: Turns"]);
}

#[test]
fn a_name_that_is_exported_for_two_types_is_found() {
    let (_folder, root) = written(&[
        (
            "lib.rs",
            "pub mod a;\nmod b;\nmod c;\npub use b::{Part, b};\n",
        ),
        ("a.rs", "pub struct Part;\npub(crate) struct Place;\n"),
        (
            "b.rs",
            "pub struct Part;\npub struct Place;\npub fn b() {}\n",
        ),
        ("c.rs", "pub struct Part;\n"),
    ]);
    assert_eq!(ambiguous(&root), ["Part: a.rs, b.rs"]);
}

#[test]
fn names_are_taken_apart_into_words() {
    for (name, expected) in [
        ("chunk_tree", &["chunk", "tree"][..]),
        ("ChunkTree", &["chunk", "tree"]),
        ("DType", &["d", "type"]),
        ("CrcOfPieces", &["crc", "of", "pieces"]),
        ("IOError", &["io", "error"]),
    ] {
        assert_eq!(words(name), expected);
    }
    assert!(bears_name("DType", "dtype"));
    assert!(bears_name("Verification", "verify"));
    assert!(!bears_name("Turns", "tails"));
}
