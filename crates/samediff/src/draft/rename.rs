//! Renaming of tags and variables in a draft.

use super::{Content, Draft, DraftTag};
use crate::fb::Unknown;
use crate::layout::Role;
use crate::text::check_name;
use crate::{Error, ErrorKind, Graph, Result, Tag, graph};

impl Draft {
    /// Renames a tag.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnknownTag`] if the tag doesn't exist; [`ErrorKind::DuplicateTag`] if another
    /// tag has the new name.
    pub fn rename_tag(&mut self, name: &str, to: Tag) -> Result<()> {
        let at = self.position(name)?;
        if self.tags[at].tag != to {
            self.check_new(&to)?;
        }
        self.tags[at].tag = to;
        Ok(())
    }

    /// Renames a variable in the graph and the lists of arrays of a tag. Other tags keep the old
    /// name, and still share the variable's files. `trainingConfig.fb` is unchanged, since the
    /// format has no schema for it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnknownTag`] if the tag doesn't exist; [`ErrorKind::UnknownVariable`] if the
    /// variable doesn't exist; [`ErrorKind::DuplicateName`] if another variable has the new name;
    /// [`ErrorKind::NameNotRepresentable`] if the variable has values and the new name isn't
    /// allowed in a list; [`ErrorKind::NotConvertible`] if the graph, which must be encoded again,
    /// has unknown fields; any error in the graph. On error, the draft is unchanged.
    ///
    /// ```
    /// use proto_splitter_samediff::{Array, ArrayInfo, Nd4jType, Draft, Graph, TagContent, VarType, SameDiffVariable};
    ///
    /// let mut graph = Graph::default();
    /// graph.variables.push(SameDiffVariable::new("w", VarType::Variable, Nd4jType::UInt8, [1]));
    /// let array = Array::from_bytes(ArrayInfo::new(Nd4jType::UInt8, [1])?, vec![7])?;
    /// let mut draft = Draft::new();
    /// draft.add_tag("first".parse()?, TagContent::new(graph).parameter("w", array))?;
    ///
    /// draft.rename_variable("first", "w", "layer/weights")?;
    /// assert!(draft.rename_variable("first", "w", "other").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rename_variable(&mut self, tag: &str, from: &str, to: &str) -> Result<()> {
        let at = self.position(tag)?;
        let mut graph = read_graph(&self.tags[at])?;
        graph::rename_variable(&mut graph, from, to)?;
        for role in Role::ALL {
            let items = self.tags[at].items(role);
            if items.iter().any(|item| item.name == from) {
                check_name(to)?;
            }
            // The graph has no variable with the new name, but a list may already contain the name.
            if from != to && items.iter().any(|item| item.name == to) {
                let message = format!("{} has a line for {to:?} already", role.list());
                return Err(Error::new(ErrorKind::DuplicateName, message));
            }
        }
        let bytes = graph::to_bytes(&graph)?;
        let tag = &mut self.tags[at];
        tag.graph = Content::Bytes(bytes);
        for role in Role::ALL {
            let items = tag.items_mut(role).iter_mut();
            for item in items.filter(|item| item.name == from) {
                to.clone_into(&mut item.name);
            }
        }
        Ok(())
    }
}

fn read_graph(tag: &DraftTag) -> Result<Graph> {
    let limits = &tag.limits;
    let read = |bytes: &[u8]| {
        let graph = graph::from_bytes(&bytes, limits, Unknown::Refused)?;
        graph::check(&graph)?;
        Ok(graph)
    };
    match &tag.graph {
        Content::Entry(archive, index) => {
            let bytes = archive.read(*index, limits.get_max_graph_size())?;
            read(&bytes).map_err(|error: Error| error.in_entry(&archive.record(*index).name))
        }
        Content::Bytes(bytes) => read(bytes),
        Content::Array(_) => {
            let message = "there is an array where the graph should be";
            Err(Error::new(ErrorKind::InvalidGraph, message))
        }
    }
}
