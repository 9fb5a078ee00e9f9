//! The content of a new tag.

use std::path::PathBuf;

use crate::{Array, Graph};

/// The content of a new tag: a graph, and its arrays.
///
/// Arrays are small handles. Their data is copied only when a draft with the tag is written.
#[derive(Clone, Debug)]
pub struct TagContent {
    pub(super) graph: Graph,
    pub(super) parameters: Vec<(String, Array)>,
    pub(super) states: Option<Vec<(String, Vec<Array>)>>,
    pub(super) training_config: Option<Vec<u8>>,
    pub(crate) files: Vec<PathBuf>,
}

impl TagContent {
    /// Creates the content of a tag with this graph, and without any values.
    #[must_use]
    pub fn new(graph: Graph) -> TagContent {
        TagContent {
            graph,
            parameters: Vec::new(),
            states: None,
            training_config: None,
            files: Vec::new(),
        }
    }

    /// Returns the graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the values of the added variables and constants, with their names.
    pub fn parameters(&self) -> impl ExactSizeIterator<Item = (&str, &Array)> {
        self.parameters.iter().map(|(name, array)| (&**name, array))
    }

    /// Returns the added states of the updater, with the names of their variables.
    pub fn states(&self) -> impl ExactSizeIterator<Item = (&str, &[Array])> {
        let states = self.states.as_deref().unwrap_or_default().iter();
        states.map(|(name, arrays)| (&**name, &**arrays))
    }

    /// Returns the bytes of the tag's `trainingConfig.fb`, if it has one.
    #[must_use]
    pub fn config(&self) -> Option<&[u8]> {
        self.training_config.as_deref()
    }

    /// Returns the files that the content was imported from: the file passed to
    /// [`import`](crate::import), followed by the other shards of its model. Empty for content that
    /// wasn't imported.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Adds the values of a variable or constant of the graph.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, array: Array) -> TagContent {
        self.parameters.push((name.into(), array));
        self
    }

    /// Adds the updater's states for a variable, in the updater's own order, such as M and V for
    /// Adam.
    #[must_use]
    pub fn updater_states(
        mut self,
        name: impl Into<String>,
        states: impl Into<Vec<Array>>,
    ) -> TagContent {
        let all = self.states.get_or_insert_default();
        all.push((name.into(), states.into()));
        self
    }

    /// Sets the bytes of `trainingConfig.fb`. The format has no schema for this file.
    #[must_use]
    pub fn training_config(mut self, bytes: impl Into<Vec<u8>>) -> TagContent {
        self.training_config = Some(bytes.into());
        self
    }
}
