//! The `protosplit schema` command.

mod print;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use prost_reflect::FileDescriptor;
use proto_splitter::atomic::{TemporaryFolder, check_folder};
use serde::Serialize;

use crate::Exit;
use crate::args::PrintSchemaArgs;
use crate::display_name::shown;
use crate::failure::Failure;
use crate::opening::Opening;
use crate::output::Output;
use crate::sanitize::one_line;
use crate::size;
use crate::types::SCHEMA_NEEDED;

#[derive(Debug, Serialize)]
struct Report {
    /// Full name of the message's type.
    message: String,
    /// Files of the schema. Each file is preceded by the files that it imports.
    files: Vec<ProtoFile>,
}

#[derive(Debug, Serialize)]
struct ProtoFile {
    name: String,
    text: String,
}

pub(crate) fn run(args: &PrintSchemaArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let input = Opening::of(&args.reading, output.objects()).open(&args.file)?;
    let Some(message) = input.descriptor() else {
        let name = shown(input.file());
        return Err(Failure::usage(match input.recorded_type() {
            Some(said) => format!("{name}: holds {said}: {SCHEMA_NEEDED}"),
            None => format!("{name}: doesn't name its type: give it with --message TYPE"),
        }));
    };
    let files = gathered(message.parent_file());
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
            return output.done(false, &(), |(), _| {
                format!("{}: {count}\n", one_line(&shown(folder)))
            });
        }
        None if args.json => output.json(&report)?,
        None => output.print(&report.text())?,
    }
    Ok(Exit::Done)
}

/// Returns a file and its direct and indirect imports. Each file is preceded by the files that it
/// imports. The function isn't recursive, since chains of imports can be long.
fn gathered(file: FileDescriptor) -> Vec<FileDescriptor> {
    let (mut files, mut seen) = (Vec::new(), HashSet::new());
    // Each file has a flag, which is true if the file's imports were already added.
    let mut open = vec![(file, false)];
    while let Some((file, is_ready)) = open.pop() {
        if is_ready {
            files.push(file);
        } else if seen.insert(file.name().to_owned()) {
            let imports: Vec<_> = file.dependencies().collect();
            open.push((file, true));
            open.extend(imports.into_iter().rev().map(|import| (import, false)));
        }
    }
    files
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
        check_folder(folder)?;
        let failed = |error: io::Error| Failure::io(folder, &error);
        // The files are written to a temporary folder, which is renamed to the target once it is
        // complete.
        let temporary = new_folder_beside(folder).map_err(failed)?;
        for file in &self.files {
            let path = temporary.path().join(relative(&file.name)?);
            fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(failed)?;
            fs::write(&path, &file.text).map_err(failed)?;
        }
        fs::rename(temporary.path(), folder).map_err(failed)?;
        temporary.keep();
        Ok(())
    }
}

/// Creates a temporary folder next to `target`, with the permissions of an ordinary folder.
fn new_folder_beside(target: &Path) -> io::Result<TemporaryFolder> {
    #[cfg(unix)]
    let mode = Some(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    #[cfg(not(unix))]
    let mode = None;
    TemporaryFolder::beside(target, mode)
}

/// Converts a file name from an untrusted schema to a path. Fails if the path is outside of the
/// output folder.
fn relative(name: &str) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(name);
    let stays = path
        .components()
        .all(|component| matches!(component, Component::Normal(_)));
    if stays && !name.is_empty() {
        return Ok(path);
    }
    Err(Failure::bad(format!(
        "the schema file {name:?} would not stay in the folder"
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
