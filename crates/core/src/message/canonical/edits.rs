//! Changes to apply to a message while its canonical form is planned.

use std::ops::Range;

use crate::Result;

use super::Canonical;

/// A function that returns the changes to one element of a repeated field, or `None` if there are
/// none.
pub(super) type ElementEdits<'e> =
    &'e dyn Fn(&mut Canonical<'_>, Range<u64>) -> Result<Option<Edits<'static>>>;

/// The changes to a message: new content, or changes to some of its fields.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "it has a function")]
pub struct Edits<'e> {
    /// Content in canonical form that replaces any content in the source; `None` to keep the
    /// source's content. A field with such new content counts as present in its parent.
    content: Option<Vec<u8>>,
    fields: Vec<(u32, Edits<'e>)>,
    /// Changes to the values of existing map entries with string keys. Each item has the number of
    /// the map field, the key, and the changes to the value.
    values: Vec<(u32, &'static str, Edits<'e>)>,
    elements: Option<(u32, ElementEdits<'e>)>,
}

impl<'e> Edits<'e> {
    /// Returns edits that change nothing.
    pub fn none() -> Self {
        Edits::default()
    }

    /// Returns edits that replace a string, or the content of a message, with `content`. For a
    /// message, `content` must be in canonical form.
    pub fn content(content: impl Into<Vec<u8>>) -> Self {
        Edits {
            content: Some(content.into()),
            ..Edits::default()
        }
    }

    /// Adds edits to a singular field.
    #[must_use]
    pub fn field(mut self, number: u32, edits: Edits<'e>) -> Self {
        self.fields.push((number, edits));
        self
    }

    /// Adds edits to the value of the entry with the string key `key` in the map field `number`, if
    /// that entry exists.
    #[must_use]
    pub fn value(mut self, number: u32, key: &'static str, edits: Edits<'e>) -> Self {
        self.values.push((number, key, edits));
        self
    }

    /// Sets the function that returns the edits to each element of a repeated field. Only one field
    /// can have such a function.
    #[must_use]
    pub fn elements(mut self, number: u32, edits: ElementEdits<'e>) -> Self {
        self.elements = Some((number, edits));
        self
    }

    pub(super) fn whole(&self) -> Option<&[u8]> {
        self.content.as_deref()
    }

    pub(super) fn of_field(&self, number: u32) -> Option<&Edits<'e>> {
        let found = self.fields.iter().find(|(of, _)| *of == number);
        found.map(|(_, edits)| edits)
    }

    pub(super) fn of_value(&self, number: u32, key: &[u8]) -> Option<&Edits<'e>> {
        let found = self
            .values
            .iter()
            .find(|(of, name, _)| *of == number && name.as_bytes() == key);
        found.map(|(.., edits)| edits)
    }

    pub(super) fn of_elements(&self, number: u32) -> Option<ElementEdits<'e>> {
        self.elements
            .filter(|(of, _)| *of == number)
            .map(|(_, edits)| edits)
    }

    /// Returns the number and the new content of each singular field whose content is replaced.
    pub(super) fn given(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.fields
            .iter()
            .filter_map(|(number, edits)| Some((*number, edits.whole()?)))
    }
}
