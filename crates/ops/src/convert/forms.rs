//! Listing the forms in which an input can be written, and the settings of each form.

use proto_splitter_core::Result;
use proto_splitter_core::formats::{ConvertTarget, Format, Opened};

use super::{USUAL, invalid};

/// Name of the form that consists of a file in chunks. [`convert`](super::convert) can write any
/// message in this form.
pub const CHUNKS: &str = "cpb";

/// The result of [`forms`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FormsReport {
    /// Name of the input's format; `message` if it has none.
    pub format: &'static str,
    /// Title of the input's format, for use in a sentence.
    pub title: &'static str,
    /// Forms in which the input can be written, the default form first.
    pub forms: Vec<FormInfo>,
    /// Settings for opening the input, and for converting it.
    pub settings: Vec<FormSetting>,
}

/// A form in which an input can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FormInfo {
    /// Name of the form, as passed to [`ConversionOptions::to`](super::ConversionOptions::to).
    pub name: &'static str,
    /// Title of the form, for use in a sentence.
    pub title: &'static str,
}

/// A setting for opening or converting an input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FormSetting {
    /// Name of the setting, as passed to
    /// [`ConversionOptions::setting`](super::ConversionOptions::setting).
    pub name: &'static str,
    /// Description of the setting, for use in a sentence.
    pub title: &'static str,
    /// Names of the forms to which the setting applies; empty if it applies to opening the input.
    pub forms: Vec<&'static str>,
}

/// Returns the forms in which [`convert`](super::convert) can write an input, each with the format
/// that writes it. The forms of the input's own format are first, starting with the default form.
/// They are followed by the forms in which other formats of the input's
/// [registry](Opened::registry) can write any message.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Opened};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// std::fs::write(&path, b"\x08\x01")?;
/// let input = Opened::of_file(&path, None, &OpenOptions::new())?;
/// assert_eq!(proto_splitter_ops::targets(&input).count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn targets(
    input: &Opened,
) -> impl Iterator<Item = (&'static dyn Format, &'static ConvertTarget)> {
    let own = input.format().map(|format| (format, format.targets()));
    let of_any = writers_of_any(input).map(|format| (format, format.targets_of_any()));
    let all = own.into_iter().chain(of_any);
    all.flat_map(|(format, targets)| targets.iter().map(move |target| (format, target)))
}

/// Returns the form with the given name, and the format that writes it. The name `auto` selects the
/// default form of the input's format, unless a form is named `auto`.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Opened};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// std::fs::write(&path, b"\x08\x01")?;
/// let input = Opened::of_file(&path, None, &OpenOptions::new())?;
/// assert!(proto_splitter_ops::form(&input, "external").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`InvalidConfig`](proto_splitter_core::ErrorKind::InvalidConfig) with the names of the input's
/// forms, if the input doesn't have the named form.
pub fn form(input: &Opened, name: &str) -> Result<(&'static dyn Format, &'static ConvertTarget)> {
    let named = targets(input).find(|(_, target)| target.name == name);
    let usual = || {
        let format = input.format().filter(|_| name == USUAL)?;
        Some((format, format.targets().first()?))
    };
    named.or_else(usual).ok_or_else(|| {
        let forms = targets(input).map(|(_, form)| format!("{} ({})", form.name, form.title));
        let forms: Vec<String> = forms.collect();
        let title = input.format().map_or("message", |format| format.title());
        let forms = forms.join(", ");
        let place = match input.input().display().to_string() {
            unnamed if unnamed.is_empty() => unnamed,
            named => format!("{named}: "),
        };
        invalid(format!(
            "{place}there is no form {name:?} for a file of the kind {title}; its forms: {forms}"
        ))
    })
}

/// Returns the formats that can write an input, the input's own format first.
fn writers(input: &Opened) -> impl Iterator<Item = &'static dyn Format> {
    input.format().into_iter().chain(writers_of_any(input))
}

/// Returns the formats, except the input's own, that can write a message of any format.
fn writers_of_any(input: &Opened) -> impl Iterator<Item = &'static dyn Format> {
    let own = input.format().map(|format| format.name());
    let formats = if input.has_message() {
        input.registry().formats()
    } else {
        &[]
    };
    let formats = formats.iter().copied();
    formats.filter(move |format| Some(format.name()) != own && !format.targets_of_any().is_empty())
}

/// Returns the forms in which an input can be written, and their settings.
///
/// ```
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_ops::{CHUNKS, forms};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("message.pb");
/// std::fs::write(&path, b"\x08\x01")?;
/// let report = forms(&Opened::of_file(&path, None, &OpenOptions::new())?);
/// assert_eq!((report.format, report.forms[0].name), ("message", CHUNKS));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn forms(input: &Opened) -> FormsReport {
    let info = |(_, target): (_, &ConvertTarget)| FormInfo {
        name: target.name,
        title: target.title,
    };
    let mut forms: Vec<FormInfo> = targets(input).map(info).collect();
    let format = input.format();
    let mut settings: Vec<FormSetting> = Vec::new();
    for writer in writers(input) {
        let known = writer.convert_settings().iter();
        settings.extend(known.map(|setting| FormSetting {
            name: setting.name,
            title: setting.title,
            forms: setting.forms.to_vec(),
        }));
    }
    let opening = format.map_or(&[][..], |format| format.open_settings());
    settings.extend(opening.iter().map(|name| FormSetting {
        name,
        title: "how the input is read",
        forms: Vec::new(),
    }));
    if input.plain().is_some() {
        forms.push(FormInfo {
            name: CHUNKS,
            title: "file in chunks",
        });
    }
    FormsReport {
        format: format.map_or("message", |format| format.name()),
        title: format.map_or("message", |format| format.title()),
        forms,
        settings,
    }
}

impl FormsReport {
    /// Returns the forms of a SavedModel folder, which is converted by `SavedModelDir`.
    ///
    /// ```
    /// use proto_splitter_ops::FormsReport;
    ///
    /// let report = FormsReport::of_saved_model();
    /// let names: Vec<&str> = report.forms.iter().map(|form| form.name).collect();
    /// assert_eq!(names, ["auto", "pb", "cpb"]);
    /// ```
    pub fn of_saved_model() -> FormsReport {
        let forms = [
            (
                "auto",
                "saved_model.pb if it is under 2 GiB, else saved_model.cpb",
            ),
            ("pb", "saved_model.pb"),
            ("cpb", "saved_model.cpb, in chunks"),
        ];
        FormsReport {
            format: "saved-model",
            title: "SavedModel",
            forms: forms.map(|(name, title)| FormInfo { name, title }).into(),
            settings: Vec::new(),
        }
    }
}
