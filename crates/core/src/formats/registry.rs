//! The list of formats, and the front door: which of them an input is of.

use std::path::Path;

use prost_reflect::MessageDescriptor;

use super::{Candidate, Confidence, Format};
use crate::size_tree::NameRule;
use crate::split::{ComposableSplitter, SizeSplitter};
use crate::tensor::TensorRule;

/// A list of formats. See the [module](super) for one.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    pub(super) formats: &'static [&'static dyn Format],
}

impl Registry {
    /// A list of these formats. Of equally sure ones the first is taken.
    pub const fn new(formats: &'static [&'static dyn Format]) -> Registry {
        Registry { formats }
    }

    /// The formats, in their order.
    pub fn formats(&self) -> &'static [&'static dyn Format] {
        self.formats
    }

    /// The format with this name.
    pub fn named(&self, name: &str) -> Option<&'static dyn Format> {
        self.find(|format| format.name() == name)
    }

    /// The format whose inputs may be messages of this type.
    pub fn of_type(&self, message_type: &str) -> Option<&'static dyn Format> {
        let is_of = |format: &dyn Format| format.message_types().contains(&message_type);
        // A format that brings no types has another's, kept in another way: that is for inputs that
        // are recognised.
        let own = self.find(|format| is_of(format) && format.descriptor_pool().is_some());
        own.or_else(|| self.find(is_of))
    }

    /// The type with this full name, if a format has it.
    pub fn message(&self, full_name: &str) -> Option<MessageDescriptor> {
        let mut pools = self
            .formats
            .iter()
            .filter_map(|format| format.descriptor_pool());
        pools.find_map(|pool| pool.get_message_by_name(full_name))
    }

    /// The splitter for messages of this type: that of a format, or else the one for any type.
    pub fn splitter(&self, message_type: &str) -> &'static (dyn ComposableSplitter + Sync) {
        let mut splitters = self
            .formats
            .iter()
            .map(|format| format.splitter(message_type));
        splitters.find_map(|found| found).unwrap_or(&SizeSplitter)
    }

    /// What the members of the messages of all formats are called.
    pub fn member_names(&self) -> Vec<NameRule> {
        let rules = self.formats.iter().flat_map(|format| format.member_names());
        rules.copied().collect()
    }

    /// How tensors are stored in the messages of all formats.
    pub fn tensor_rules(&self) -> Vec<&'static TensorRule> {
        let formats = self.formats.iter();
        formats.flat_map(|format| format.tensor_rules()).collect()
    }

    /// How a tensor is stored in messages of this type; none if they hold none.
    pub fn tensor_rule(&self, message_type: &str) -> Option<&'static TensorRule> {
        let mut rules = self.tensor_rules().into_iter();
        rules.find(|rule| rule.message == message_type)
    }

    /// The format of an input that may go with another file: the one that knows the input, or else
    /// the one that knows the other file.
    pub fn recognize_with(
        &self,
        candidate: &Candidate<'_>,
        companion: Option<&Path>,
    ) -> Option<&'static dyn Format> {
        self.recognize(candidate).or_else(|| {
            let format = self.recognize(&Candidate::new(companion?).ok()?)?;
            format.companion().map(|_| format)
        })
    }

    /// The format that is surest to know an input; none if none knows it.
    pub fn recognize(&self, candidate: &Candidate<'_>) -> Option<&'static dyn Format> {
        self.surest(candidate).map(|(_, format)| format)
    }

    /// The format that is surest of an input, and how sure it is.
    pub(super) fn surest(
        &self,
        candidate: &Candidate<'_>,
    ) -> Option<(Confidence, &'static dyn Format)> {
        let sure = |format: &&'static dyn Format| Some((format.recognize(candidate)?, *format));
        let known = self.formats.iter().filter_map(sure);
        // `max_by_key` would take the last of equals.
        known.reduce(|best, next| if next.0 > best.0 { next } else { best })
    }

    fn find(&self, is: impl Fn(&dyn Format) -> bool) -> Option<&'static dyn Format> {
        self.formats.iter().copied().find(|format| is(*format))
    }
}
