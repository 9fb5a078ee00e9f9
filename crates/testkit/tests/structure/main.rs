//! Tests of the structure of the crates: dependencies between files and modules have no cycles, and
//! files are named after their types.
//!
//! No module or file in a crate may depend on itself through others: in code with cyclic imports, no
//! file can be understood without the others.
//!
//! A file depends on the files that define the names it uses. Re-exports are followed to the
//! definitions, and aren't dependencies themselves. A module may use the definitions of the modules
//! that contain it without depending on them, so that the methods of a type may be in files below
//! the type's own file. Test code is ignored, and method calls aren't tracked.
//!
//! Code reads a message without a test of whether it is in chunks: few calls of `Opened::chunked`
//! are left.
//!
//! A file that only defines types is named after one of them, so that a reader can find the type by
//! the file's name: see [`names`].
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod graph;
mod modules;
mod names;
mod options;

use std::path::{Path, PathBuf};

use graph::{Graph, cycles_of};
use modules::Crate;

/// Returns the root files of the workspace's crates: the root crate and all crates in `crates/`.
fn crate_roots() -> Vec<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = std::fs::read_dir(workspace.join("crates")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    let mut roots: Vec<PathBuf> = folders
        .chain([workspace])
        .map(|folder| folder.join("src/lib.rs"))
        .filter(|root| root.is_file())
        .collect();
    roots.sort();
    roots
}

/// Returns descriptions of all cycles among a crate's files, and among its modules at each level.
fn cycles(root: &Path) -> Vec<String> {
    let sources = Crate::read(root);
    let references = sources.references();
    let files = Graph::of_files(&sources, &references);
    let levels = Graph::of_levels(&sources, &references);
    let graphs = std::iter::once(files).chain(levels);
    graphs.flat_map(cycles_of).collect()
}

/// Returns the name of the folder of the crate with the root file `root`.
fn crate_name(root: &Path) -> String {
    let folder = root.parent().and_then(Path::parent).unwrap();
    let name = folder.canonicalize().unwrap();
    name.file_name().unwrap().to_string_lossy().into_owned()
}

/// Returns the graph of the dependencies between the modules that a crate's root file declares.
fn modules_at_root(root: &Path) -> Graph {
    let sources = Crate::read(root);
    let references = sources.references();
    Graph::of_levels(&sources, &references).swap_remove(0)
}

#[test]
fn the_modules_of_core_have_few_layers_and_few_dependencies() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src/lib.rs");
    let graph = modules_at_root(&core);
    let chain = graph.longest_chain();
    assert!((4..=8).contains(&chain.len()), "{}", chain.join(" -> "));
    let dependencies = graph.dependencies();
    assert!((40..=90).contains(&dependencies), "{dependencies}");
}

#[test]
fn few_places_depend_on_whether_an_open_message_is_in_chunks() {
    let mut places = Vec::new();
    for root in crate_roots() {
        let name = crate_name(&root);
        for module in Crate::read(&root).modules {
            let file = module.file;
            let asks = module.calls.into_iter();
            let asks = asks.filter(|(method, _)| method == "chunked");
            places.extend(asks.map(|(_, line)| format!("{name}: {file}:{line}")));
        }
    }
    assert!(
        (10..=20).contains(&places.len()),
        "\n{}\n",
        places.join("\n")
    );
}

#[test]
fn the_longest_chain_of_modules_and_their_dependencies_are_found() {
    let (_folder, root) = written(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
        ("a.rs", "pub struct A;\n"),
        ("b.rs", "use crate::a::A;\npub struct B(A);\n"),
        ("c.rs", "use crate::{a::A, b::B};\npub struct C(A, B);\n"),
        ("d.rs", "use crate::a::A;\npub struct D(A);\n"),
    ]);
    let graph = modules_at_root(&root);
    assert_eq!(graph.longest_chain(), ["c", "b", "a"]);
    assert_eq!(graph.dependencies(), 4);
}

#[test]
fn no_file_or_module_of_any_crate_imports_itself_by_way_of_others() {
    let roots = crate_roots();
    assert!(roots.len() > 5, "the crates are found: {roots:?}");
    let mut found = Vec::new();
    for root in roots {
        let name = crate_name(&root);
        found.extend(
            cycles(&root)
                .into_iter()
                .map(|cycle| format!("{name}: {cycle}")),
        );
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Writes a crate to a new folder. Returns the folder, and the path of the crate's root file.
fn written(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let root = folder.path().join("lib.rs");
    (folder, root)
}

/// Writes a crate to a new folder, and returns descriptions of its cycles.
fn planted(files: &[(&str, &str)]) -> Vec<String> {
    let (_folder, root) = written(files);
    cycles(&root)
}

#[test]
fn a_planted_cycle_of_files_is_named_with_the_lines_that_make_it() {
    let found = planted(&[
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "use crate::b::B;\npub struct A(B);\n"),
        (
            "b.rs",
            "\npub struct B;\nfn f() -> Option<super::a::A> { None }\n",
        ),
    ]);
    assert_eq!(
        found[0],
        "files: a.rs -> b.rs (a.rs:1, crate::b::B) -> a.rs (b.rs:3, super::a::A)"
    );
}

#[test]
fn a_cycle_through_re_exports_and_bodies_of_macros_is_found() {
    let found = planted(&[
        (
            "lib.rs",
            "mod a;\nmod b;\npub use a::A;\npub use b::name;\n",
        ),
        (
            "a.rs",
            "use crate::b;\npub struct A;\nfn f() { println!(\"{}\", b::name()) }\n",
        ),
        ("b.rs", "pub fn name() -> u8 { 0 }\nfn f(_: crate::A) {}\n"),
    ]);
    assert!(
        found[0].starts_with("files: a.rs -> b.rs (a.rs:3"),
        "{found:?}"
    );
}

#[test]
fn a_cycle_of_folders_is_found_where_the_files_have_none() {
    let found = planted(&[
        ("lib.rs", "mod left;\nmod right;\n"),
        ("left.rs", "pub mod above;\npub mod below;\n"),
        ("left/above.rs", "use crate::right::below::B;\n"),
        ("left/below.rs", "pub struct L;\n"),
        ("right.rs", "pub mod above;\npub mod below;\n"),
        ("right/above.rs", "use crate::left::below::L;\n"),
        ("right/below.rs", "pub struct B;\n"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("modules of crate: left -> right (left/above.rs:1"),
        "{found:?}"
    );
}

#[test]
fn children_of_a_module_may_import_each_other_one_way_only() {
    let child = "use super::A;\nimpl A { fn f() { super::c::g() } }\n";
    let found = planted(&[
        ("lib.rs", "mod a;\n"),
        ("a.rs", "mod b;\nmod c;\npub struct A;\nfn f() { b::g() }\n"),
        ("a/b.rs", &format!("{child}pub(super) fn g() {{}}\n")),
        ("a/c.rs", "pub(super) fn g() {}\n"),
    ]);
    assert_eq!(found, [""; 0]);
    let found = planted(&[
        ("lib.rs", "mod a;\n"),
        ("a.rs", "mod b;\nmod c;\n"),
        ("a/b.rs", "pub(super) fn g() { super::c::g() }\n"),
        ("a/c.rs", "pub(super) fn g() { crate::a::b::g() }\n"),
    ]);
    assert!(
        found[0].starts_with("files: a/b.rs -> a/c.rs (a/b.rs:1"),
        "{found:?}"
    );
}

#[test]
fn re_exports_and_tests_make_no_cycle() {
    let found = planted(&[
        ("lib.rs", "mod a;\npub use a::B;\npub struct Error;\n"),
        (
            "a.rs",
            "mod b;\npub use b::B;\npub struct A;\n#[cfg(test)]\nmod tests { use super::b::B; fn f(_: B) {} }\n",
        ),
        ("a/b.rs", "use super::A;\npub struct B(A, crate::Error);\n"),
    ]);
    assert_eq!(found, [""; 0]);
}
