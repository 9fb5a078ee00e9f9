//! The schemas that the user gives to a command: descriptor sets, and `.proto` files to compile.

pub(crate) mod beside;
mod edition_sources;
mod image;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};
use proto_splitter::schema::add_descriptor_set;
use protox::file::{ChainFileResolver, FileResolver, GoogleFileResolver, IncludeFileResolver};

use crate::args::SchemaArgs;
use crate::failure::Failure;
use edition_sources::EditionSources;

/// Reads or compiles the schemas in the arguments, and combines them in one pool.
pub(crate) fn load(args: &SchemaArgs) -> Result<DescriptorPool, Failure> {
    let mut pool = DescriptorPool::new();
    if let Some(set) = &args.given {
        add(&mut pool, Path::new("schema"), set)?;
    }
    for path in &args.descriptor_set {
        add_file(&mut pool, path)?;
    }
    if let [first, ..] = &args.proto[..] {
        add(&mut pool, first, &compile(args)?)?;
    }
    Ok(pool)
}

/// Reads a file with a compiled schema.
fn read(path: &Path) -> Result<DescriptorPool, Failure> {
    let mut pool = DescriptorPool::new();
    add_file(&mut pool, path)?;
    Ok(pool)
}

fn add_file(pool: &mut DescriptorPool, path: &Path) -> Result<(), Failure> {
    let mut set = fs::read(path).map_err(|error| Failure::io(path, &error))?;
    if image::is_json(&set) {
        let shown = crate::display_name::shown(path);
        let binary = image::from_json(&set);
        set = binary.map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    }
    add(pool, path, &set)
}

fn add(pool: &mut DescriptorPool, path: &Path, set: &[u8]) -> Result<(), Failure> {
    add_descriptor_set(pool, set).map_err(|error| Failure::of(path, &error))
}

/// Compiles the `.proto` files in the arguments to a descriptor set that includes their imports.
fn compile(args: &SchemaArgs) -> Result<Vec<u8>, Failure> {
    let folders = if args.proto_path.is_empty() {
        // A file that doesn't exist may still be built into the compiler, as is
        // `google/protobuf/descriptor.proto`.
        let there = args.proto.iter().filter(|file| file.exists());
        let beside = there.map(|file| folder_of(file));
        // The compiler also looks up files in the current folder, as protoc does.
        beside.chain([PathBuf::from(".")]).collect()
    } else {
        args.proto_path.clone()
    };
    let editions = EditionSources::default();
    let mut resolver = ChainFileResolver::new();
    for folder in &folders {
        resolver.add(editions.in_folder(folder));
    }
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true);
    for file in &args.proto {
        check_not_shadowed(&folders, file)?;
        compiler
            .open_file(file)
            .map_err(|error| failure(file, &error, &editions))?;
    }
    let set = compiler.encode_file_descriptor_set();
    editions.mark(set).map_err(Failure::usage)
}

/// Fails if an earlier folder contains another file with the same import path as `file`, since the
/// compiler would find that file instead. The compiler itself makes this check only for files that
/// it can parse, which excludes files with editions.
fn check_not_shadowed(folders: &[PathBuf], file: &Path) -> Result<(), Failure> {
    let mut named = folders.iter().enumerate().filter_map(|(at, folder)| {
        let name = IncludeFileResolver::new(folder.clone()).resolve_path(file)?;
        Some((folders.get(..at)?, name))
    });
    let Some((before, name)) = named.next() else {
        return Ok(());
    };
    let mut found = before.iter().map(|folder| folder.join(&name));
    let is_another = |other: &PathBuf| {
        let there = fs::canonicalize(other);
        there.is_ok_and(|there| {
            there.is_file() && fs::canonicalize(file).is_ok_and(|file| file != there)
        })
    };
    match found.find(is_another) {
        Some(other) => Err(Failure::usage(format!(
            "path '{}' is shadowed by '{}' in the include paths",
            file.display(),
            other.display()
        ))),
        None => Ok(()),
    }
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Converts an error from the compiler to a failure. The `Debug` output of a [`protox::Error`]
/// contains the file, line and column.
fn failure(file: &Path, error: &protox::Error, editions: &EditionSources) -> Failure {
    if !error.is_file_not_found() && error.file().is_none() {
        // An error about a source with an edition already contains the file, line and column.
        return Failure::usage(error.to_string());
    }
    let said = match error.file() {
        Some(name) => {
            let said = editions.in_source(error);
            let is_named = said.contains(name);
            if is_named {
                said
            } else {
                format!("{name}: {said}")
            }
        }
        None => format!("{}: {error:?}", file.display()),
    };
    let hint = if error.is_file_not_found() {
        " (use -I DIR to search another folder for imports)"
    } else {
        ""
    };
    Failure::usage(said + hint)
}

/// Returns the message types in a pool that the user can select with `--message`.
pub(crate) fn messages(pool: &DescriptorPool) -> impl Iterator<Item = MessageDescriptor> + '_ {
    pool.all_messages()
        .filter(|message| !message.is_map_entry())
}

/// Returns the full names of the message types that aren't the type of a field in any other message
/// type. Types in `google.protobuf` are omitted.
pub(crate) fn roots(pool: &DescriptorPool) -> impl Iterator<Item = String> {
    let mut held = BTreeSet::new();
    for message in pool.all_messages() {
        for field in message.fields() {
            if let Kind::Message(inner) = field.kind()
                && inner != message
            {
                held.insert(inner.full_name().to_owned());
            }
        }
    }
    let names: Vec<String> = messages(pool)
        .map(|message| message.full_name().to_owned())
        .filter(|name| !held.contains(name) && !name.starts_with("google.protobuf."))
        .collect();
    names.into_iter()
}
