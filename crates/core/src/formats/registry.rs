//! The list of formats, and the choice of the format for an input.

use std::path::Path;

use prost_reflect::{DescriptorPool, MessageDescriptor};

use super::{Candidate, Confidence, Format};
use crate::split::{ComposableSplitter, SizeSplitter};
use crate::tensor::{LodRule, TensorRule};
use crate::view::size_tree::NameRule;

/// A list of formats. See the [module](super) for an example.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    pub(super) formats: &'static [&'static dyn Format],
}

impl Registry {
    /// Creates a registry of these formats. If several formats recognize an input with equal
    /// confidence, the first of them is used.
    pub const fn new(formats: &'static [&'static dyn Format]) -> Registry {
        Registry { formats }
    }

    /// Returns the formats, in the order given to [`new`](Self::new).
    pub fn formats(&self) -> &'static [&'static dyn Format] {
        self.formats
    }

    /// Returns the format with this name, if the registry has one.
    pub fn named(&self, name: &str) -> Option<&'static dyn Format> {
        self.find(|format| format.name() == name)
    }

    /// Returns the format whose inputs may be messages of this type; `None` if there is no such
    /// format.
    pub fn of_type(&self, message_type: &str) -> Option<&'static dyn Format> {
        let is_of = |format: &dyn Format| format.message_types().contains(&message_type);
        // A format without its own types stores another format's messages in a different way. Such
        // a format is the second choice, since its inputs are recognized by their content.
        let own = self.find(|format| is_of(format) && format.descriptor_pool().is_some());
        own.or_else(|| self.find(is_of))
    }

    /// Returns the type with this full name, if a format declares it or it is built into protobuf,
    /// such as `google.protobuf.FileDescriptorSet`.
    pub fn message(&self, full_name: &str) -> Option<MessageDescriptor> {
        let mut pools = self
            .formats
            .iter()
            .filter_map(|format| format.descriptor_pool());
        let found = pools.find_map(|pool| pool.get_message_by_name(full_name));
        found.or_else(|| {
            // The global pool may also contain types of the calling program, which are ignored.
            let is_own = full_name.starts_with("google.protobuf.");
            is_own.then(|| DescriptorPool::global().get_message_by_name(full_name))?
        })
    }

    /// Returns the splitter for messages of this type: the splitter of a format, or else the
    /// general splitter.
    pub fn splitter(&self, message_type: &str) -> &'static (dyn ComposableSplitter + Sync) {
        let mut splitters = self
            .formats
            .iter()
            .map(|format| format.splitter(message_type));
        splitters.find_map(|found| found).unwrap_or(&SizeSplitter)
    }

    /// Returns the naming rules of all formats.
    pub fn member_names(&self) -> Vec<NameRule> {
        let rules = self.formats.iter().flat_map(|format| format.member_names());
        rules.copied().collect()
    }

    /// Returns the tensor rules of all formats.
    pub fn tensor_rules(&self) -> Vec<&'static TensorRule> {
        let formats = self.formats.iter();
        formats.flat_map(|format| format.tensor_rules()).collect()
    }

    /// Returns the tensor rule for messages of this type; `None` if they aren't tensors.
    pub fn tensor_rule(&self, message_type: &str) -> Option<&'static TensorRule> {
        let mut rules = self.tensor_rules().into_iter();
        rules.find(|rule| rule.message == message_type)
    }

    /// Returns the rule for the LoD of tensors in messages of this type; `None` if the messages
    /// have no LoD.
    pub fn lod_rule(&self, message_type: &str) -> Option<&'static LodRule> {
        let mut rules = self.formats.iter().filter_map(|format| format.lod_rule());
        rules.find(|rule| rule.message == message_type)
    }

    /// Returns the format of an input that may have a companion file: the format that recognizes
    /// the input, or else the format that recognizes the companion.
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

    /// Returns the most confident format for an input; `None` if no format recognizes it.
    pub fn recognize(&self, candidate: &Candidate<'_>) -> Option<&'static dyn Format> {
        self.surest(candidate).map(|(_, format)| format)
    }

    /// Returns the most confident format for an input, with its confidence; `None` if no format
    /// recognizes the input.
    pub(super) fn surest(
        &self,
        candidate: &Candidate<'_>,
    ) -> Option<(Confidence, &'static dyn Format)> {
        let sure = |format: &&'static dyn Format| Some((format.recognize(candidate)?, *format));
        let known = self.formats.iter().filter_map(sure);
        // `max_by_key` would return the last of equally confident formats.
        known.reduce(|best, next| if next.0 > best.0 { next } else { best })
    }

    fn find(&self, is: impl Fn(&dyn Format) -> bool) -> Option<&'static dyn Format> {
        self.formats.iter().copied().find(|format| is(*format))
    }
}
