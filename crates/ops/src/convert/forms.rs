//! The forms that an input can be written in, and their settings.

use proto_splitter_core::formats::Opened;

/// Name of the form that every message has: a file in chunks, which [`convert_to_chunks`](super::convert_to_chunks) writes.
pub const CHUNKS: &str = "cpb";

/// The result of [`forms`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FormsReport {
    /// Name of the format; `message` if it has none.
    pub format: &'static str,
    /// Name of the format in a sentence.
    pub title: &'static str,
    /// Forms, the usual one first.
    pub forms: Vec<FormInfo>,
    /// Settings of opening and converting.
    pub settings: Vec<FormSetting>,
}

/// A form that an input can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FormInfo {
    /// Name of the form in options.
    pub name: &'static str,
    /// Name of the form in a sentence.
    pub title: &'static str,
}

/// A setting of conversions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FormSetting {
    /// Name of the setting.
    pub name: &'static str,
    /// Description in a sentence.
    pub title: &'static str,
    /// Forms to which it applies; empty if it applies to opening the input.
    pub forms: Vec<&'static str>,
}

/// Returns the forms that an input can be written in, and their settings.
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
    let (mut forms, mut settings) = (Vec::new(), Vec::new());
    let format = input.format();
    if let Some(format) = format {
        forms.extend(format.targets().iter().map(|target| FormInfo {
            name: target.name,
            title: target.title,
        }));
        settings.extend(format.convert_settings().iter().map(|setting| FormSetting {
            name: setting.name,
            title: setting.title,
            forms: setting.forms.to_vec(),
        }));
        settings.extend(format.open_settings().iter().map(|name| FormSetting {
            name,
            title: "how the input is read",
            forms: Vec::new(),
        }));
    }
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
    /// Returns the forms of a SavedModel's folder, which `SavedModelDir` converts.
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
