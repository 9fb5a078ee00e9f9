//! `protosplit convert --to help`: lists the forms to which an input can be converted, and the
//! settings of each form.

use proto_splitter::ops::{ConversionOptions, FormsReport, forms};

use crate::Exit;
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::facts;

use super::{HELP, check_folder, open};

pub(super) fn run(args: &ConvertArgs, output: &mut Output<'_>) -> Result<Exit, Failure> {
    let mut options = ConversionOptions::new().to(HELP);
    for (name, value) in &args.set {
        options = options.setting(name, value);
    }
    let input = open(&args.input, &args.schema, &options, output.objects())?;
    let report = match input {
        Some(opened) => forms(&opened),
        None => {
            check_folder(&args.input)?;
            FormsReport::of_saved_model()
        }
    };
    output.report(args.json, &report, |report, _| text(report))
}

fn text(report: &FormsReport) -> String {
    let forms: Vec<(&str, String)> = report
        .forms
        .iter()
        .map(|form| (form.name, form.title.to_owned()))
        .collect();
    let mut text = format!("Forms of the {} (--to):\n{}", report.title, facts(&forms));
    if report.settings.is_empty() {
        return text;
    }
    let settings: Vec<(&str, String)> = report
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
