//! `protosplit convert --to help`: the forms that an input can be written in, and their settings.

use proto_splitter::Opened;
use serde::Serialize;

use crate::Exit;
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::facts;

use super::{check_folder, chunked, format};

/// Value of `--to` that requests the list.
pub(super) const HELP: &str = "help";

#[derive(Debug, Serialize)]
struct Forms {
    format: &'static str,
    title: &'static str,
    forms: Vec<Form>,
    settings: Vec<Setting>,
}

#[derive(Debug, Serialize)]
struct Form {
    name: &'static str,
    title: &'static str,
}

#[derive(Debug, Serialize)]
struct Setting {
    name: &'static str,
    title: &'static str,
    /// Forms to which it applies; empty if it applies to reading the input.
    forms: Vec<&'static str>,
}

/// The form available for every message.
const CHUNKED: Form = Form {
    name: chunked::FORM,
    title: "file in chunks",
};

pub(super) fn run(args: &ConvertArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let report = match format::open(args, output)? {
        Some(opened) => of_input(&opened),
        None => {
            check_folder(args)?;
            of_saved_model()
        }
    };
    output.report(args.json, &report, |report, _| report.text())?;
    Ok(Exit::Done)
}

fn of_input(opened: &Opened) -> Forms {
    let (mut forms, mut settings) = (Vec::new(), Vec::new());
    let format = opened.format();
    if let Some(format) = format {
        forms.extend(format.targets().iter().map(|target| Form {
            name: target.name,
            title: target.title,
        }));
        settings.extend(format.convert_settings().iter().map(|setting| Setting {
            name: setting.name,
            title: setting.title,
            forms: setting.forms.to_vec(),
        }));
        settings.extend(format.open_settings().iter().map(|name| Setting {
            name,
            title: "how the input is read",
            forms: Vec::new(),
        }));
    }
    if opened.plain().is_some() {
        forms.push(CHUNKED);
    }
    Forms {
        format: format.map_or("message", |format| format.name()),
        title: format.map_or("message", |format| format.title()),
        forms,
        settings,
    }
}

fn of_saved_model() -> Forms {
    let forms = [
        (
            "auto",
            "saved_model.pb if it is under 2 GiB, else saved_model.cpb",
        ),
        ("pb", "saved_model.pb"),
        ("cpb", "saved_model.cpb, in chunks"),
    ];
    Forms {
        format: "saved-model",
        title: "SavedModel",
        forms: forms.map(|(name, title)| Form { name, title }).into(),
        settings: Vec::new(),
    }
}

impl Forms {
    fn text(&self) -> String {
        let forms: Vec<(&str, String)> = self
            .forms
            .iter()
            .map(|form| (form.name, form.title.to_owned()))
            .collect();
        let mut text = format!("Forms of the {} (--to):\n{}", self.title, facts(&forms));
        if self.settings.is_empty() {
            return text;
        }
        let settings: Vec<(&str, String)> = self
            .settings
            .iter()
            .map(|setting| {
                let forms = match setting.forms.as_slice() {
                    [] => String::new(),
                    forms => format!(" ({})", forms.join(", ")),
                };
                (setting.name, format!("{}{forms}", setting.title))
            })
            .collect();
        text.push_str(&format!(
            "\nSettings (--set NAME=VALUE):\n{}",
            facts(&settings)
        ));
        text
    }
}
