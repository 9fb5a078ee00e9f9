//! What a model has very many of: the nodes of its graphs, and the objects that were saved with
//! them.

use proto_splitter_core::decode::{InParts, Parts};

use crate::proto::{MetaGraphDef, SavedModel, SavedObject, SavedObjectGraph};

impl InParts for SavedModel {
    fn parts(parts: &mut Parts<Self>) {
        parts.repeated(2, |model| &mut model.meta_graphs);
    }
}

impl InParts for MetaGraphDef {
    fn parts(parts: &mut Parts<Self>) {
        parts.singular(2, |meta_graph| meta_graph.graph_def.get_or_insert_default());
        parts.singular(7, |meta_graph| {
            meta_graph.object_graph_def.get_or_insert_default()
        });
    }
}

impl InParts for SavedObjectGraph {
    fn parts(parts: &mut Parts<Self>) {
        parts.repeated(1, |objects| &mut objects.nodes);
    }
}

impl InParts for SavedObject {
    fn parts(_: &mut Parts<Self>) {}
}
