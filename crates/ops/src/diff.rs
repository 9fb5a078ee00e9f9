//! Comparing two inputs: messages by their bytes and fields, other inputs tensor by tensor.

mod tensor_names;
mod tensors;

use std::cell::OnceCell;
use std::path::PathBuf;

use prost_reflect::MessageDescriptor;
use proto_splitter_core::compare::{Comparison, Difference, DifferenceKind, compare};
use proto_splitter_core::formats::Opened;
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::progress::Progress;
use proto_splitter_core::{Error, ErrorKind, Result};

use self::tensor_names::TensorNames;
use crate::error_place::{at, at_either};

/// Options for [`diff`].
#[derive(Clone, Debug)]
pub struct DiffOptions {
    pub(crate) limit: usize,
    pub(crate) progress: Progress,
}

impl Default for DiffOptions {
    fn default() -> Self {
        DiffOptions {
            limit: 10,
            progress: Progress::none(),
        }
    }
}

impl DiffOptions {
    /// Returns the defaults: the comparison ends after ten differences.
    #[must_use]
    pub fn new() -> Self {
        DiffOptions::default()
    }

    /// Sets the number of differences, at least one, after which the comparison ends. Default: 10.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.max(1);
        self
    }

    proto_splitter_core::options! {
        /// Sets progress reporting and cancellation. Default: none.
        ref progress, get_progress: Progress;
    }

    /// Returns the number of differences after which the comparison ends.
    pub const fn get_limit(&self) -> usize {
        self.limit
    }
}

/// The result of [`diff`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DiffReport {
    /// Path or URL of the first input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub first: PathBuf,
    /// Path or URL of the second input.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::as_text::path"))]
    pub second: PathBuf,
    /// Outcome of the comparison, and the first differences.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub details: DiffDetails,
    /// True if the comparison ended at the limit, so there may be more differences.
    pub limited: bool,
}

impl DiffReport {
    /// Returns the outcome of the comparison.
    pub fn result(&self) -> Outcome {
        match self.details {
            DiffDetails::Messages { result, .. } | DiffDetails::Tensors { result, .. } => result,
        }
    }
}

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "lowercase")
)]
#[non_exhaustive]
pub enum Outcome {
    /// The inputs have the same bytes or, if compared by tensor, equal tensors.
    Identical,
    /// The inputs are equal messages with different bytes.
    Equal,
    /// The inputs differ.
    Different,
}

/// The results of a comparison of messages or of tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
#[non_exhaustive]
pub enum DiffDetails {
    /// Results of a comparison of two messages.
    #[non_exhaustive]
    Messages {
        /// Full name of the message type used for the comparison; `None` if the type is unknown.
        message: Option<String>,
        /// Outcome of the comparison.
        result: Outcome,
        /// First differences, up to the limit.
        differences: Vec<MessageDifference>,
    },
    /// Results of a comparison of tensors by name. Inputs are compared in this way if one of them
    /// has no message.
    #[non_exhaustive]
    Tensors {
        /// Outcome of the comparison.
        result: Outcome,
        /// Number of tensors that are equal in both inputs.
        equal: usize,
        /// First differences, up to the limit.
        differences: Vec<TensorDifference>,
    },
}

/// A difference between two messages, and its path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MessageDifference {
    /// Path of the value in the first message, or in the second message if only that one has the
    /// value.
    pub path: String,
    /// Name of the list element at the path or, if the element has no name, of the tensor that
    /// contains the value. `None` if there is no such tensor either.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub name: Option<String>,
    /// Description of the difference.
    pub how: String,
}

/// A difference between the tensors that have the same name in the two inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TensorDifference {
    /// Name of the tensor.
    pub tensor: String,
    /// Description of the difference.
    pub how: String,
}

/// Compares two inputs as messages or, if one of them has no message, tensor by tensor.
///
/// ```
/// use std::sync::Arc;
///
/// use proto_splitter_core::formats::{OpenOptions, Opened};
/// use proto_splitter_ops::{DiffDetails, DiffOptions, Outcome, diff};
///
/// let open = |bytes: &[u8]| Opened::of_reader(Arc::new(bytes.to_vec()), None, &OpenOptions::new());
/// let (first, second) = (open(b"\x08\x01\x10\x02")?, open(b"\x10\x02\x08\x03")?);
/// let report = diff(&first, &second, &DiffOptions::new())?;
/// assert_eq!(report.result(), Outcome::Different);
/// if let DiffDetails::Messages { differences, .. } = &report.details {
///     assert_eq!(differences[0].how, "1 in the first, 3 in the second");
/// }
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] if the inputs specify different message types. Also fails if an
/// input can't be read or is damaged, or the work was cancelled.
pub fn diff(first: &Opened, second: &Opened, options: &DiffOptions) -> Result<DiffReport> {
    let inputs = [first, second];
    let details = if inputs.iter().all(|input| input.has_message()) {
        messages(inputs, options)?
    } else {
        tensors::compare(inputs, options)?
    };
    let found = match &details {
        DiffDetails::Messages { differences, .. } => differences.len(),
        DiffDetails::Tensors { differences, .. } => differences.len(),
    };
    Ok(DiffReport {
        first: first.input().to_owned(),
        second: second.input().to_owned(),
        details,
        limited: found >= options.limit,
    })
}

/// Compares two messages. A message type that only one input specifies is used for both.
fn messages(inputs: [&Opened; 2], options: &DiffOptions) -> Result<DiffDetails> {
    let message = one_type(inputs)?;
    let [first, second] = inputs.map(|input| input.reading_options().descriptor(message.cloned()));
    // Progress is reported only for the first input.
    let readings = [first.progress(options.progress.clone()), second];
    let typed = |side: usize, reading: ReadOptions| {
        let input: &Opened = inputs[side];
        let view = input.view_with(reading).and_then(|view| {
            view.check_type()?;
            Ok(view)
        });
        view.map_err(|error| at(input, error))
    };
    let [first, second] = readings;
    let views = [typed(0, first)?, typed(1, second)?];
    let compared = compare(&views[0], &views[1], options.limit);
    let (result, differences) = match compared.map_err(|error| at_either(inputs, error))? {
        Comparison::Identical => (Outcome::Identical, Vec::new()),
        Comparison::Equal => (Outcome::Equal, Vec::new()),
        Comparison::Different(differences) => {
            // With the wrong message type, the differences would be misleading.
            for (input, view) in inputs.into_iter().zip(&views) {
                view.check_whole_type().map_err(|error| at(input, error))?;
            }
            (Outcome::Different, differences)
        }
    };
    let names = [OnceCell::new(), OnceCell::new()];
    let tensor = |difference: &Difference| {
        let side = usize::from(matches!(difference.how, DifferenceKind::OnlyInSecond));
        let names = names[side].get_or_init(|| TensorNames::of(inputs[side]));
        names.around(&difference.path)
    };
    let shown = |difference: &Difference| MessageDifference {
        path: difference.path.display(message),
        name: difference.name.clone().or_else(|| tensor(difference)),
        how: difference.how.said("the first", "the second").to_string(),
    };
    Ok(DiffDetails::Messages {
        message: message.map(|message| message.full_name().to_owned()),
        result,
        differences: differences.iter().map(shown).collect(),
    })
}

/// Returns the message type that is specified by both inputs or by one of them; `None` if neither
/// specifies a type. Fails if the inputs specify different types.
fn one_type(inputs: [&Opened; 2]) -> Result<Option<&MessageDescriptor>> {
    let types = inputs.map(Opened::descriptor);
    if let [Some(a), Some(b)] = types
        && a.full_name() != b.full_name()
    {
        let [first, second] = inputs.map(|input| input.input().display());
        let (a, b) = (a.full_name(), b.full_name());
        let message = format!("{first} holds {a}, {second} {b}");
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    Ok(types[0].or(types[1]))
}
