//! `protosplit schema`.

mod print;

use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use prost_reflect::FileDescriptor;
use serde::Serialize;

use crate::Exit;
use crate::args::PrintSchemaArgs;
use crate::failure::Failure;
use crate::input;
use crate::merge;
use crate::output::Output;
use crate::size;

#[derive(Debug, Serialize)]
struct Report {
    /// The full name of the message's type.
    message: String,
    /// What imports comes behind what it imports.
    files: Vec<ProtoFile>,
}

#[derive(Debug, Serialize)]
struct ProtoFile {
    name: String,
    text: String,
}

pub(crate) fn run(args: &PrintSchemaArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let input = input::find(&args.file)?;
    let options = merge::options(&input, &args.reading)?;
    let Some(message) = options.get_descriptor() else {
        let name = crate::input::shown(&input.file);
        return Err(Failure::usage(format!(
            "{name}: doesn't say its type: --message TYPE does"
        )));
    };
    let mut files = Vec::new();
    gather(&message.parent_file(), &mut HashSet::new(), &mut files);
    let report = Report {
        message: message.full_name().to_owned(),
        files: files
            .iter()
            .map(|file| ProtoFile {
                name: file.name().to_owned(),
                text: print::file(file),
            })
            .collect(),
    };
    match &args.output {
        Some(folder) => {
            report.write(folder)?;
            let count = size::count(report.files.len(), "file");
            output.print(&format!("{}: {count}\n", folder.display()))?;
        }
        None if args.json => output.json(&report)?,
        None => output.print(&report.text())?,
    }
    Ok(Exit::Done)
}

/// A file behind all that it imports.
fn gather(file: &FileDescriptor, seen: &mut HashSet<String>, files: &mut Vec<FileDescriptor>) {
    if !seen.insert(file.name().to_owned()) {
        return;
    }
    for import in file.dependencies() {
        gather(&import, seen, files);
    }
    files.push(file.clone());
}

impl Report {
    fn text(&self) -> String {
        let files = self
            .files
            .iter()
            .map(|file| format!("// {}\n\n{}", file.name, file.text));
        files.collect::<Vec<_>>().join("\n")
    }

    fn write(&self, folder: &Path) -> Result<(), Failure> {
        if folder.exists() {
            return Err(Failure::usage(format!(
                "{} is there already",
                folder.display()
            )));
        }
        for file in &self.files {
            let path = folder.join(relative(&file.name)?);
            let parent = path.parent().unwrap_or(folder);
            fs::create_dir_all(parent).map_err(|error| Failure::io(parent, &error))?;
            fs::write(&path, &file.text).map_err(|error| Failure::io(&path, &error))?;
        }
        Ok(())
    }
}

/// The name of a file that may come from anywhere, as a path that stays in the folder.
fn relative(name: &str) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(name);
    let stays = path
        .components()
        .all(|component| matches!(component, Component::Normal(_)));
    if stays && !name.is_empty() {
        return Ok(path);
    }
    Err(Failure::bad(format!(
        "a schema file named {name:?}, which would not stay in the folder"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_written_outside_the_folder() {
        assert!(relative("tensorflow/core/framework/graph.proto").is_ok());
        for name in ["", "/etc/passwd", "../a.proto", "a/../../b.proto"] {
            assert!(relative(name).is_err(), "{name}");
        }
    }
}
