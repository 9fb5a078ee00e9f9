//! Finding and opening the tensors in an input.

use std::sync::Arc;

use prost_reflect::MessageDescriptor;

use super::Opened;
use crate::formats::TensorIter;
use crate::formats::archive::no_tensor;
use crate::formats::lod_table::LodTable;
use crate::formats::tensor_table::TensorTable;
use crate::message::MessageReader;
use crate::path::FieldPath;
use crate::tensor::{
    Location, TensorInfo, TensorReader, TensorRule, leading, placed_tensors_in, tensor_at,
    tensor_in_pieces,
};
use crate::{Error, ErrorKind, Result};

impl Opened {
    /// Returns all named tensors: the archive's tensors, or else the tensors that the formats find
    /// in the message. Reads no elements.
    ///
    /// # Errors
    ///
    /// If the tensors' headers can't be read.
    pub fn tensors(&self) -> Result<Vec<TensorInfo>> {
        match &self.archive {
            Some(archive) => archive.tensors(),
            None => Ok(self.table()?.tensors().cloned().collect()),
        }
    }

    /// Returns an iterator over the tensors, in the order of [`tensors`](Self::tensors), without
    /// building a list of all tensors if the format permits.
    ///
    /// # Errors
    ///
    /// The errors of [`tensors`](Self::tensors), returned here or by the iterator.
    pub fn tensor_iter(&self) -> Result<TensorIter<'_>> {
        match &self.archive {
            Some(archive) => archive.tensor_iter(),
            None => Ok(Box::new(self.table()?.tensors().cloned().map(Ok))),
        }
    }

    /// Returns the table of the tensors in the message, which is built on the first call.
    fn table(&self) -> Result<&TensorTable> {
        if let Some(table) = self.listed() {
            return Ok(table);
        }
        let table = self.list()?;
        Ok(self.table.get_or_init(|| table))
    }

    /// Returns the table of the tensors in the message; `None` if they haven't been listed.
    pub(in crate::formats) fn listed(&self) -> Option<&TensorTable> {
        self.table.get()
    }

    fn list(&self) -> Result<TensorTable> {
        let view = self.view()?;
        let rules = self.registry.tensor_rules();
        // The message's type alone determines where tensors can be.
        let leads =
            |root: &MessageDescriptor| self.format.is_some() || !leading(root, &rules).is_empty();
        if !view.descriptor().is_some_and(leads) {
            let nothing = MessageReader::new(Arc::new(b""), 0);
            return Ok(TensorTable::new(Vec::new(), nothing));
        }
        let portion = view.unwatched()?;
        let message = self.message()?.stored.planned(portion.plan_of_chunks());
        let named = self
            .format
            .map(|format| format.tensors_in_message(message.clone().into()));
        let tensors = match named.transpose()?.flatten() {
            Some(tensors) => tensors,
            None => placed_tensors_in(&view, &rules, || Ok(portion))?,
        };
        Ok(TensorTable::new(tensors, message))
    }

    /// Opens the tensor with this name, or else the tensor at this path in the message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if there is no such tensor, and the errors of
    /// [`tensors`](Self::tensors).
    pub fn tensor(&self, name: &str) -> Result<TensorReader<'_>> {
        let found = self.find_tensor(name)?;
        self.read_tensor(&found.ok_or_else(|| no_tensor(name))?)
    }

    /// Returns the header of the tensor with this name, or else of the tensor at this path in the
    /// message; `None` if neither exists.
    ///
    /// ```
    /// # use proto_splitter_core::formats::{OpenOptions, Opened};
    /// # let bytes: std::sync::Arc<dyn record_file::ReadAt> = std::sync::Arc::new(b"\x0a\x01a");
    /// let opened = Opened::of_reader(bytes, None, &OpenOptions::new())?;
    /// // Its type is unknown, and so are its tensors.
    /// assert_eq!(opened.find_tensor("weights")?, None);
    /// # Ok::<(), proto_splitter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`tensors`](Self::tensors).
    pub fn find_tensor(&self, name: &str) -> Result<Option<TensorInfo>> {
        match &self.archive {
            Some(archive) => archive.find(name),
            None => Ok(self.table()?.named(name).cloned()),
        }
    }

    /// Returns the LoD of a tensor that [`tensors`](Self::tensors) returned, like
    /// [`Archive::lod`](crate::formats::Archive::lod). For a tensor in a message, a format's
    /// [rule](crate::formats::Format::lod_rule) finds the LoD.
    ///
    /// # Errors
    ///
    /// If the offsets can't be read.
    pub fn lod(&self, info: &TensorInfo) -> Result<Vec<Vec<u64>>> {
        match (&self.archive, &info.location) {
            (Some(archive), _) => archive.lod(info),
            (None, Location::Message { path, .. }) => self.lod_in_message(path),
            (None, _) => Ok(Vec::new()),
        }
    }

    fn lod_in_message(&self, path: &FieldPath) -> Result<Vec<Vec<u64>>> {
        let root = self.descriptor().map(MessageDescriptor::full_name);
        let Some(rule) = root.and_then(|root| self.registry.lod_rule(root)) else {
            return Ok(Vec::new());
        };
        let lods = match self.lods.get() {
            Some(lods) => lods,
            None => {
                let lods = LodTable::list(&self.view()?, rule)?;
                self.lods.get_or_init(|| lods)
            }
        };
        if lods.is_empty() {
            return Ok(Vec::new());
        }
        lods.read(path, &self.view()?, self.table()?.message())
    }

    /// Opens a tensor that [`tensors`](Self::tensors) returned.
    ///
    /// # Errors
    ///
    /// If the elements have no fixed width, or their number doesn't match the tensor's shape.
    pub fn read_tensor(&self, info: &TensorInfo) -> Result<TensorReader<'_>> {
        match (&self.archive, &info.location) {
            (Some(archive), _) => archive.read(info),
            (None, Location::Message { path, .. }) => {
                let placed = self
                    .listed()
                    .and_then(|table| Some((table, table.placed(info)?)));
                let Some((table, placed)) = placed else {
                    return self.tensor_in(path, &info.name);
                };
                if let Some(elements) = placed.elements.clone() {
                    return Ok(table.elements(info, elements));
                }
                let (rule, message) = self.tensor_rule(path)?;
                let bytes = table.message().clone().into();
                tensor_in_pieces(bytes, placed.pieces.clone(), message, info, rule)
            }
            (None, _) => Err(no_tensor(&info.name)),
        }
    }

    /// Opens the tensor at a path in the message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPath`] if no format treats the value as a tensor, and the errors of
    /// [`read_tensor`](Self::read_tensor).
    pub fn tensor_at(&self, path: &str) -> Result<TensorReader<'_>> {
        self.tensor_in(&self.find(path)?, path)
    }

    fn tensor_in(&self, path: &FieldPath, name: &str) -> Result<TensorReader<'_>> {
        let (rule, _) = self.tensor_rule(path)?;
        tensor_at(self.view()?, path, name, rule)
    }

    /// Returns the rule for the tensor at a path, and the type of the tensor's message.
    pub(in crate::formats) fn tensor_rule(
        &self,
        path: &FieldPath,
    ) -> Result<(&'static TensorRule, MessageDescriptor)> {
        let target = self
            .descriptor()
            .map(|root| path.resolve(root))
            .transpose()?;
        let message = target.as_ref().and_then(|target| target.kind.message());
        let ruled = message.and_then(|message| {
            let rule = self.registry.tensor_rule(message.full_name())?;
            Some((rule, message.clone()))
        });
        ruled.ok_or_else(|| {
            let rules = self.registry.tensor_rules();
            let known: Vec<&str> = rules.iter().map(|rule| rule.message).collect();
            let message = format!("only a {} is a tensor", known.join(" or "));
            let error = Error::new(ErrorKind::InvalidPath, message);
            error.at_path(path.display(self.descriptor()))
        })
    }
}
