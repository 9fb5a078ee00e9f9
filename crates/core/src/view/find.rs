//! Finding the value at a path: the chunks to read, and the value's location in the input that they
//! form.

use prost_reflect::Kind;

use super::element_runs::{ElementRun, element_runs};
use super::locate::{self, Found};
use super::portion::Portion;
use super::{MessageView, Value};
use crate::container::Trailer;
use crate::merge::{MergePlan, plan, plan_part};
use crate::path::{FieldPath, Select, TargetKind};
use crate::wire::WireCursor;
use crate::{Error, ErrorKind, Result};

/// The input that has a value, with a part of the message, and the value's location in this input.
pub(super) type Located<'a> = (Portion<'a>, Found);

impl<'a> MessageView<'a> {
    pub(crate) fn find_some(&self, path: &FieldPath) -> Result<Value<'a>> {
        let (portion, found) = self.locate_some(path)?;
        Ok((portion, found.pieces))
    }

    /// Finds the value at a path, which must exist.
    pub(super) fn locate_some(&self, path: &FieldPath) -> Result<Located<'a>> {
        if let Some(located) = self.find(path)? {
            return Ok(located);
        }
        let mut message = "the message has no such value".to_owned();
        if let Some(why) = self.missing(path)? {
            message = format!("{message}: {why}");
        }
        Err(Error::new(ErrorKind::InvalidPath, message).at_path(self.show(path)))
    }

    /// Finds the value at a path; returns `None` if the message has no such value.
    pub(super) fn find(&self, path: &FieldPath) -> Result<Option<Located<'a>>> {
        let _span = tracing::debug_span!("find", path = %self.show(path)).entered();
        locate::check(path, self.descriptor())?;
        match self.stored.trailer() {
            Some(trailer) => self.find_in_chunks(trailer, path),
            None => self.find_in(MergePlan::default(), Vec::new(), path),
        }
    }

    /// Returns true if a path leads to a numeric value; false for other values, and if the
    /// message's type is unknown.
    fn is_number(&self, path: &FieldPath) -> Result<bool> {
        let is_text = |kind: &Kind| matches!(kind, Kind::String | Kind::Bytes);
        Ok(match self.kind(path)? {
            Some(TargetKind::Scalar(kind)) => !is_text(&kind),
            _ => false,
        })
    }

    /// Finds the value at a path in a chunked file. If the file has placeholders, the chunks along
    /// the path contain all relevant bytes. Otherwise another chunk may add elements before the
    /// value, or set another member of a oneof, so only the plan for merging the entire message
    /// shows whether the value exists.
    fn find_in_chunks(&self, trailer: &Trailer, path: &FieldPath) -> Result<Option<Located<'a>>> {
        let chunks = self.stored.chunks();
        // To find the chunk of a repeated number, look up its enclosing message.
        let around = match (self.descriptor(), path.steps().last()) {
            (Some(_), Some(step)) if matches!(step.select, Select::Index(_)) => {
                let mut above = path.clone();
                above.pop();
                self.is_number(path)?.then_some(above)
            }
            _ => None,
        };
        let planned = around.as_ref().unwrap_or(path);
        let locate = |plan| {
            let runs = element_runs(&plan, trailer);
            self.find_in(plan, runs, path)
        };
        let found = plan_part(trailer, chunks, planned, &self.options).and_then(locate);
        if trailer.is_marked() {
            return found;
        }
        let may_have_ended = |root| trailer.chunk_tree().may_end(path, root);
        if let Ok(Some(_)) = &found
            && !self.descriptor().is_some_and(may_have_ended)
        {
            return found;
        }
        match plan(trailer, chunks, &self.options) {
            Ok(plan) => locate(plan),
            // An error in the plan for the entire message doesn't necessarily affect this value.
            Err(_) => found,
        }
    }

    fn find_in(
        &self,
        plan: MergePlan,
        runs: Vec<ElementRun>,
        path: &FieldPath,
    ) -> Result<Option<Located<'a>>> {
        let input = self.stored.input(plan)?;
        let portion = Portion::new(input, runs, &self.options.progress);
        let mut cursor = WireCursor::new(portion);
        let found = locate::locate(&mut cursor, path, self.descriptor());
        let mut portion = cursor.into_input();
        let found = found.map_err(|error| portion.damage_first(error.at_path(self.show(path))))?;
        match found {
            Some(found) => Ok(Some((portion, found))),
            // The accessed chunks were not read to their ends, and so have not been checked yet.
            None => portion.check().map(|()| None),
        }
    }
}
