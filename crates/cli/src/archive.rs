//! What `info` and `ls` say of inputs that are more than a message in one file: archives
//! of tensors, and messages that several files make.

mod diff;

use proto_splitter::formats::Entry;
use proto_splitter::{Error, Opened};
use serde::Serialize;

use crate::Exit;
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::input::{Input, shown};
use crate::output::Output;
use crate::size;
use crate::table::{Align, Table, facts};

pub(crate) use diff::diff;

/// What there is to know without reading any tensor.
#[derive(Debug, Serialize)]
struct Info {
    file: String,
    format: &'static str,
    /// The full name of the message's type, if there is a message.
    message: Option<String>,
    message_bytes: Option<u64>,
    tensors: usize,
    /// Of all tensors.
    tensor_bytes: u64,
    files: Vec<String>,
    /// What the input says of itself.
    properties: Vec<(String, String)>,
}

pub(crate) fn info(input: &Input, json: bool, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let failed = |error: Error| Failure::of(input.path(), &error);
    let tensors = input.tensors().map_err(failed)?;
    let properties = input.archive().map(|archive| archive.properties());
    let message = input.descriptor();
    let report = Info {
        file: shown(input.path()),
        format: format_of(input),
        message: message.map(|message| message.full_name().to_owned()),
        message_bytes: input.plain().map(|(_, size)| size),
        tensors: tensors.len(),
        tensor_bytes: tensors.iter().map(|tensor| tensor.bytes).sum(),
        files: input.files().iter().map(|file| shown(file)).collect(),
        properties: properties.transpose().map_err(failed)?.unwrap_or_default(),
    };
    output.report(json, &report, |report, _| report.text())?;
    Ok(Exit::Done)
}

/// What its format is called in reports.
pub(crate) fn format_of(opened: &Opened) -> &'static str {
    opened.format().map_or("unknown", |format| format.name())
}

impl Info {
    fn text(&self) -> String {
        let mut lines = vec![
            ("file", one_line(&self.file)),
            ("format", self.format.to_owned()),
        ];
        if let Some(message) = &self.message {
            let bytes = self.message_bytes.map(size::show).unwrap_or_default();
            lines.push(("message", format!("{}, {bytes}", one_line(message))));
        }
        let bytes = size::show(self.tensor_bytes);
        lines.push(("tensors", format!("{}, {bytes} in all", self.tensors)));
        lines.extend(self.files.iter().map(|file| ("read from", one_line(file))));
        let properties = self.properties.iter();
        let properties: Vec<(String, String)> = properties
            .map(|(name, value)| (one_line(name), one_line(value)))
            .collect();
        let more = properties
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()));
        lines.extend(more);
        facts(&lines)
    }
}

#[derive(Debug, Serialize)]
struct Listing {
    file: String,
    format: &'static str,
    entries: Vec<Listed>,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    what: Option<String>,
    bytes: u64,
    location: String,
}

pub(crate) fn ls(input: &Input, json: bool, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let entries = entries(input).map_err(|error| Failure::of(input.path(), &error))?;
    let listed = |entry: &Entry| Listed {
        name: entry.name.clone(),
        what: entry.detail.clone(),
        bytes: entry.bytes,
        location: entry.location.to_string(),
    };
    let report = Listing {
        file: shown(input.path()),
        format: format_of(input),
        entries: entries.iter().map(listed).collect(),
        bytes: entries.iter().map(|entry| entry.bytes).sum(),
    };
    output.report(json, &report, Listing::text)?;
    Ok(Exit::Done)
}

/// All that takes up space: what an archive says, or else the tensors.
pub(crate) fn entries(opened: &Opened) -> Result<Vec<Entry>, Error> {
    match opened.archive() {
        Some(archive) => archive.entries(),
        None => Ok(opened.tensors()?.iter().map(Entry::of_tensor).collect()),
    }
}

impl Listing {
    fn text(&self, width: Option<usize>) -> String {
        let mut table = Table::new([
            ("size", Align::Right),
            ("what", Align::Left),
            ("name", Align::Left),
            ("where", Align::Left),
        ]);
        for entry in &self.entries {
            table.row([
                size::show(entry.bytes),
                one_line(entry.what.as_deref().unwrap_or("-")),
                one_line(&entry.name),
                one_line(&entry.location),
            ]);
        }
        table.render_within(width)
    }
}
