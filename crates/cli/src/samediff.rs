//! `protosplit samediff`: lists and changes the tags of SameDiff models.

use std::path::Path;

use proto_splitter::atomic::MadeFrom;
use proto_splitter_samediff::{
    Array, Draft, Error, Model, SameDiffWriteOptions, Tag, TagView, import, left_out_of_classic,
    write_classic, write_safetensors,
};
use serde::Serialize;

use crate::Exit;
use crate::args::{
    AddArgs, CopyArgs, DropArgs, ExtractArgs, MergeModelsArgs, RenameArgs, SameDiffArgs,
    SameDiffCommand, TagForm, TagsArgs, WritingArgs,
};
use crate::display_name::shown;
use crate::failure::Failure;
use crate::output::Output;
use crate::sanitize::one_line;
use crate::table::{Align, Table};

pub(crate) fn run(args: &SameDiffArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    match &args.command {
        SameDiffCommand::Tags(args) => tags(args, output),
        SameDiffCommand::Extract(args) => extract(args, output),
        SameDiffCommand::Drop(args) => drop_tags(args, output),
        SameDiffCommand::Merge(args) => merge(args, output),
        SameDiffCommand::Add(args) => add(args, output),
        SameDiffCommand::Rename(args) => rename(args, output),
        SameDiffCommand::Dedup(args) => edit(args, output, Draft::deduplicate),
        SameDiffCommand::Gc(args) => edit(args, output, |draft| {
            draft.collect_garbage();
            Ok(())
        }),
    }
}

fn failed(path: &Path) -> impl Fn(Error) -> Failure + '_ {
    |error| Failure::of(path, &error.into())
}

#[derive(Debug, Serialize)]
struct Tags {
    file: String,
    /// Tags, the oldest first. The last tag is the default.
    tags: Vec<TagReport>,
}

#[derive(Debug, Serialize)]
struct TagReport {
    tag: String,
    operations: usize,
    parameters: usize,
    updater_states: usize,
    /// Total size of the arrays that the tag uses, in bytes.
    bytes: u64,
    /// Total size of the tag's arrays that are stored in another tag's folder, in bytes.
    shared_bytes: u64,
}

fn tags(args: &TagsArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let failed = failed(&args.file);
    let model = Model::open(&args.file).map_err(&failed)?;
    let tags = model.tags().map(describe).collect::<Result<Vec<_>, _>>();
    let report = Tags {
        file: args.file.display().to_string(),
        tags: tags.map_err(&failed)?,
    };
    if args.json {
        output.json(&report)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new([
        ("tag", Align::Left),
        ("operations", Align::Right),
        ("parameters", Align::Right),
        ("updater states", Align::Right),
        ("bytes", Align::Right),
        ("shared", Align::Right),
    ]);
    for tag in &report.tags {
        table.row([
            one_line(&tag.tag),
            tag.operations.to_string(),
            tag.parameters.to_string(),
            tag.updater_states.to_string(),
            tag.bytes.to_string(),
            tag.shared_bytes.to_string(),
        ]);
    }
    output.print(&table.render_within(output.width()))?;
    Ok(Exit::Done)
}

fn describe(tag: TagView<'_>) -> Result<TagReport, Error> {
    let (parameters, states) = (tag.parameters()?, tag.updater_states()?);
    let mut seen = std::collections::HashSet::new();
    let (mut bytes, mut shared_bytes) = (0, 0);
    let mut updater_states = 0;
    for list in [&parameters, &states] {
        for (_, files) in list.iter() {
            for file in files {
                if seen.insert(*file) {
                    let len = list.stored_len(file);
                    bytes += len;
                    let folder = list.entry_name(file).split('/').next();
                    if folder.is_none_or(|folder| !tag.name().is(folder)) {
                        shared_bytes += len;
                    }
                }
            }
        }
    }
    for (_, files) in states.iter() {
        updater_states += files.len();
    }
    Ok(TagReport {
        tag: tag.name().to_string(),
        operations: tag.graph()?.operations.len(),
        parameters: parameters.len(),
        updater_states,
        bytes,
        shared_bytes,
    })
}

fn extract(args: &ExtractArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let failed = failed(&args.file);
    let model = Model::open(&args.file).map_err(&failed)?;
    let tag = match &args.tag {
        Some(name) => model.tag(name),
        None => Ok(model.default_tag()),
    };
    let tag = tag.map_err(&failed)?;
    let options = options(&args.out, &[&args.file], output);
    let target = &args.out.output;
    let written = match args.to {
        TagForm::Samediff => Draft::open(&model).and_then(|mut draft| {
            draft.extract_tag(tag.name().as_str())?;
            Ok(draft.write(target, &options)?.size)
        }),
        TagForm::Fb => write_classic(&tag, target, &options),
        TagForm::Safetensors => write_safetensors(&tag, target, &options),
    };
    let size = written.map_err(&failed)?;
    let done = say(output, target, size)?;
    if let TagForm::Fb = args.to
        && let Some(left_out) = left_out_of_classic(&tag).map_err(&failed)?
    {
        output.note(left_out);
    }
    Ok(done)
}

fn drop_tags(args: &DropArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let failed = failed(&args.file);
    let mut draft = open(&args.file)?;
    for tag in &args.tags {
        draft.drop_tag(tag).map_err(&failed)?;
    }
    if args.collect_garbage {
        draft.collect_garbage();
    }
    write(&draft, &args.out, &[&args.file], output)
}

fn merge(args: &MergeModelsArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let mut renames = Vec::new();
    for rename in &args.rename {
        let Some((old, new)) = rename.split_once('=') else {
            return Err(Failure::usage(format!(
                "--rename {rename:?} is not TAG=NEW"
            )));
        };
        renames.push((old, parse_tag(new)?));
    }
    let mut merged = Draft::new();
    for file in &args.files {
        let mut draft = open(file)?;
        let mut left = Vec::new();
        for (old, new) in renames {
            let is_here = draft.tags().any(|tag| tag.is(old));
            if is_here {
                draft.rename_tag(old, new).map_err(failed(file))?
            } else {
                left.push((old, new))
            }
        }
        renames = left;
        merged.merge(draft).map_err(failed(file))?;
    }
    if let Some((old, _)) = renames.first() {
        return Err(Failure::usage(format!(
            "--rename: no file has a tag {old:?}"
        )));
    }
    if args.deduplicate {
        merged
            .deduplicate()
            .map_err(|error| Failure::from(proto_splitter::Error::from(error)))?;
    }
    let read: Vec<&Path> = args.files.iter().map(|file| &**file).collect();
    write(&merged, &args.out, &read, output)
}

fn add(args: &AddArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let tag = parse_tag(&args.tag)?;
    let mut draft = match &args.onto {
        Some(model) => open(model)?,
        None => Draft::new(),
    };
    let failed = failed(&args.input);
    let content = import(&args.input).map_err(&failed)?;
    let mut read = content.files().to_vec();
    read.extend(args.onto.clone());
    let added = match &args.like {
        None => draft.add_tag(tag, content),
        Some(like) => {
            let named = content.parameters();
            let arrays: Vec<(String, Array)> = named
                .map(|(name, array)| (name.to_owned(), array.clone()))
                .collect();
            draft.add_tag_like(tag, like, arrays)
        }
    };
    added.map_err(&failed)?;
    let read: Vec<&Path> = read.iter().map(|file| &**file).collect();
    write(&draft, &args.out, &read, output)
}

fn rename(args: &RenameArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let mut draft = open(&args.file)?;
    // A slash separates a tag from a variable. Variable names may contain slashes, but tag names
    // can't.
    let renamed = match args.old.split_once('/') {
        Some((tag, variable)) => draft.rename_variable(tag, variable, &args.new),
        None => draft.rename_tag(&args.old, parse_tag(&args.new)?),
    };
    renamed.map_err(failed(&args.file))?;
    write(&draft, &args.out, &[&args.file], output)
}

/// Applies `change` to a copy of a model, and writes the copy.
fn edit(
    args: &CopyArgs,
    output: &mut Output<'_>,
    change: impl FnOnce(&mut Draft) -> Result<(), Error>,
) -> Result<Exit, Failure> {
    let mut draft = open(&args.file)?;
    change(&mut draft).map_err(failed(&args.file))?;
    write(&draft, &args.out, &[&args.file], output)
}

fn parse_tag(name: &str) -> Result<Tag, Failure> {
    name.parse()
        .map_err(|error: Error| Failure::usage(error.to_string()))
}

fn open(path: &Path) -> Result<Draft, Failure> {
    Model::open(path)
        .and_then(|model| Draft::open(&model))
        .map_err(failed(path))
}

/// Returns the options for writing a file from the models in `read`. The file may replace one of
/// them.
fn options(args: &WritingArgs, read: &[&Path], output: &Output<'_>) -> SameDiffWriteOptions {
    let read = read.iter().map(|file| file.to_path_buf()).collect();
    SameDiffWriteOptions::new()
        .made_from(MadeFrom::Edited(read))
        .force(args.force)
        .progress(output.writing("writing"))
}

fn write(
    draft: &Draft,
    args: &WritingArgs,
    read: &[&Path],
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    // With several models, the error may be about any of them, so it names the output instead.
    let named = match read {
        [one] => one,
        _ => args.output.as_path(),
    };
    let written = draft
        .write(&args.output, &options(args, read, output))
        .map_err(failed(named))?;
    say(output, &args.output, written.size)
}

fn say(output: &mut Output<'_>, path: &Path, size: u64) -> Result<Exit, Failure> {
    output.done(false, &(), |(), _| {
        format!("{}: {size} bytes\n", one_line(&shown(path)))
    })
}
