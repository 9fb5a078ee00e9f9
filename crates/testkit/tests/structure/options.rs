//! Tests that all types for options have the same style: private fields, setters that take `self`
//! and return it, and getters.
//!
//! The rule applies to public structs whose names end in `Options` or `Limits`. A setter has the
//! name of its field, and a getter has the name with the prefix `get_`. The macro `options!` always
//! defines both, so only the methods outside of it are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{FnArg, Item, Visibility};

use crate::{crate_name, crate_roots};

/// Returns the Rust files in a folder and its subfolders.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns the name of a type without its generic arguments.
fn type_name(of: &syn::Type) -> Option<String> {
    match of {
        syn::Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        _ => None,
    }
}

/// Returns true if a method takes `self` by value, as a setter does.
fn takes_value(method: &syn::ImplItemFn) -> bool {
    matches!(method.sig.inputs.first(), Some(FnArg::Receiver(this)) if this.reference.is_none())
}

/// Returns descriptions of the definitions in a file that don't follow the style.
fn departures(text: &str) -> Vec<String> {
    let items = syn::parse_file(text).unwrap().items;
    let mut fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for item in &items {
        let Item::Struct(one) = item else { continue };
        let name = one.ident.to_string();
        let is_options = name.ends_with("Options") || name.ends_with("Limits");
        if !is_options || !matches!(one.vis, Visibility::Public(_)) {
            continue;
        }
        let mut names = BTreeSet::new();
        for field in &one.fields {
            let field_name = field.ident.as_ref().unwrap().to_string();
            if matches!(field.vis, Visibility::Public(_)) {
                found.push(format!("{name}.{field_name} is public"));
            }
            names.insert(field_name);
        }
        fields.insert(name, names);
    }
    for item in &items {
        let Item::Impl(block) = item else { continue };
        let Some(name) = type_name(&block.self_ty).filter(|_| block.trait_.is_none()) else {
            continue;
        };
        let Some(fields) = fields.get(&name) else {
            continue;
        };
        let methods: Vec<_> = block
            .items
            .iter()
            .filter_map(|item| match item {
                syn::ImplItem::Fn(method) if matches!(method.vis, Visibility::Public(_)) => {
                    Some((method.sig.ident.to_string(), takes_value(method)))
                }
                _ => None,
            })
            .collect();
        for (setter, _) in methods.iter().filter(|(_, takes_value)| *takes_value) {
            let getter = format!("get_{setter}");
            let is_offered = methods.iter().any(|(method, _)| *method == getter);
            if fields.contains(setter) && !is_offered {
                found.push(format!("{name}::{setter} has no {getter}"));
            }
        }
    }
    found
}

#[test]
fn options_have_private_fields_with_setters_and_getters() {
    let mut found = Vec::new();
    for root in crate_roots() {
        let folder = root.parent().unwrap();
        for file in sources(folder) {
            let text = std::fs::read_to_string(&file).unwrap();
            let place = file.strip_prefix(folder).unwrap().display();
            let named = |line| format!("{}: {place}: {line}", crate_name(&root));
            found.extend(departures(&text).into_iter().map(named));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_public_field_and_a_missing_getter_are_found() {
    let text = "pub struct SomeOptions { pub force: bool, depth: u32 }
        impl SomeOptions {
            pub fn depth(mut self, depth: u32) -> Self { self.depth = depth; self }
            pub fn force(mut self, force: bool) -> Self { self.force = force; self }
            pub fn get_force(&self) -> bool { self.force }
        }";
    assert_eq!(
        departures(text),
        [
            "SomeOptions.force is public",
            "SomeOptions::depth has no get_depth"
        ]
    );
}
