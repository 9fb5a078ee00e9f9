//! `protosplit externalize` and `protosplit internalize`.

use proto_splitter::ModelForm;
use proto_splitter::externalize::{
    ConstantInfo, ExternalizeOptions, ExternalizePlan, Externalized, Reason, finish_in_place,
    internalize,
};
use proto_splitter::tensor_bundle::dtype_name;
use serde::Serialize;

use crate::Exit;
use crate::args::{ExternalizeArgs, InternalizeArgs};
use crate::failure::Failure;
use crate::harmless::one_line;
use crate::input::{check_named, shown};
use crate::output::Output;
use crate::size;

/// What moved.
#[derive(Debug, Serialize)]
struct Report {
    /// The model's folder; none if nothing was written.
    output: Option<String>,
    /// Of the model as a message, before.
    message_bytes: u64,
    /// Of the new saved_model.pb; none if nothing was written.
    model_bytes: Option<u64>,
    /// Of the contents of all constants that move, each once.
    stored_bytes: u64,
    moved: Vec<Constant>,
    left_in: Vec<Left>,
    /// Files of a model that was externalized to the folder before, which the output goes without.
    stale: Vec<String>,
    /// Whether the constants are mapped from files that must stay where they are.
    mapped: bool,
    /// Whether the model was externalized before, in place: by a run that was interrupted later, or
    /// that ended.
    already: bool,
}

#[derive(Debug, Serialize)]
struct Constant {
    meta_graph: usize,
    function: Option<String>,
    node: String,
    dtype: String,
    shape: Vec<u64>,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Left {
    #[serde(flatten)]
    constant: Constant,
    why: String,
}

impl From<ConstantInfo> for Constant {
    fn from(of: ConstantInfo) -> Self {
        Constant {
            meta_graph: of.meta_graph,
            function: of.function,
            node: of.node,
            dtype: dtype_name(of.dtype),
            shape: of.shape,
            bytes: of.size,
        }
    }
}

impl Constant {
    fn text(&self) -> String {
        let name = match &self.function {
            Some(function) => format!("{function}/{}", self.node),
            None => self.node.clone(),
        };
        let (name, bytes) = (one_line(&name), size::show(self.bytes));
        format!("{bytes:>10}  {name}  {}{:?}", self.dtype, self.shape)
    }
}

pub(crate) fn run_externalize(
    args: &ExternalizeArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    if let Some(folder) = &args.output {
        check_named(folder)?;
    }
    let failed = |error| Failure::of(&args.input, &error);
    let mut options = ExternalizeOptions::new()
        .min_size(args.min_size)
        .force(args.force)
        .mapped(args.mmap)
        .progress(output.writing("externalizing"));
    if let Some(threads) = args.threads.threads {
        options = options.threads(threads);
    }
    if args.in_place
        && let Some(done) = finish_in_place(&args.input, &options).map_err(failed)?
    {
        let report = Report::already(&done, args.mmap);
        output.done(args.json, &report, |report, _| report.text())?;
        return Ok(Exit::Done);
    }
    let plan = ExternalizePlan::new(&args.input, &options).map_err(failed)?;
    let written = match (&args.output, args.in_place) {
        _ if args.dry_run => None,
        (Some(to), _) => Some(plan.write(to).map_err(failed)?),
        (None, true) => Some(plan.write_in_place().map_err(failed)?),
        (None, false) => None,
    };
    let left = |(constant, reason): (ConstantInfo, Reason)| Left {
        constant: constant.into(),
        why: reason.to_string(),
    };
    let report = Report {
        output: written.as_ref().map(|written| shown(&written.path)),
        message_bytes: plan.message_size(),
        model_bytes: written.as_ref().map(|written| written.model_size),
        stored_bytes: plan.stored(),
        moved: plan.constants().map(Constant::from).collect(),
        left_in: plan.left().map(left).collect(),
        stale: written.iter().flat_map(stale).collect(),
        mapped: args.mmap,
        already: false,
    };
    output.done(args.json, &report, |report, _| report.text())?;
    if report.mapped && report.output.is_some() && !report.moved.is_empty() {
        output.note("warning: the model maps its constants from absolute paths: it can't be moved or copied elsewhere");
    }
    Ok(Exit::Done)
}

/// The stale files of a folder, by their paths.
fn stale(written: &Externalized) -> Vec<String> {
    written.stale.iter().map(|path| shown(path)).collect()
}

impl Report {
    /// Of a model that was externalized before.
    fn already(done: &Externalized, mapped: bool) -> Report {
        Report {
            output: Some(shown(&done.path)),
            message_bytes: done.message_size,
            model_bytes: Some(done.model_size),
            stored_bytes: done.stored,
            moved: Vec::new(),
            left_in: Vec::new(),
            stale: Vec::new(),
            mapped,
            already: true,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for constant in &self.moved {
            text += &format!("{}\n", constant.text());
        }
        for left in &self.left_in {
            text += &format!("{}  left in: {}\n", left.constant.text(), left.why);
        }
        for file in &self.stale {
            text += &format!("{file}: left out, as it belongs to a model that was here before\n");
        }
        let was = size::show(self.message_bytes);
        let constants = size::count(self.moved.len(), "constant");
        let stored = size::show(self.stored_bytes);
        text += &match (&self.output, self.model_bytes) {
            (Some(output), Some(model)) if self.already => {
                let model = size::show(model);
                format!(
                    "{output}: externalized already: a model of {was} is one of {model} and constants of {stored}\n"
                )
            }
            (Some(output), _) if self.moved.is_empty() => {
                format!("{output}: nothing moved out of a model of {was}\n")
            }
            (Some(output), Some(model)) => {
                let model = size::show(model);
                format!(
                    "{output}: a model of {was} is now one of {model} and {constants} of {stored}\n"
                )
            }
            _ => format!("{constants} of {stored} would move out of a model of {was}\n"),
        };
        text
    }
}

/// What was made of an externalized model.
#[derive(Debug, Serialize)]
struct Internal {
    output: String,
    split: bool,
    message_bytes: u64,
}

pub(crate) fn run_internalize(
    args: &InternalizeArgs,
    output: &mut Output<'_>,
) -> Result<Exit, Failure> {
    check_named(&args.output)?;
    let options = ExternalizeOptions::new()
        .force(args.force)
        .progress(output.writing("internalizing"));
    let made = internalize(&args.input, &args.output, &options)
        .map_err(|error| Failure::of(&args.input, &error))?;
    let report = Internal {
        output: shown(&made.path),
        split: made.form == ModelForm::Chunked,
        message_bytes: made.message_size,
    };
    output.done(args.json, &report, |report, _| {
        let form = if report.split {
            "in chunks"
        } else {
            "in one piece"
        };
        let (output, bytes) = (&report.output, size::show(report.message_bytes));
        format!("{output}: {bytes}, {form}\n")
    })?;
    Ok(Exit::Done)
}
