//! Where a graph has its nodes: in itself, and in the functions of its library.

use proto_splitter_core::decode::{InParts, Parts};

use crate::proto::{FunctionDef, FunctionDefLibrary, GraphDef, NodeDef};

impl InParts for GraphDef {
    fn parts(parts: &mut Parts<Self>) {
        parts.repeated(1, |graph| &mut graph.node);
        parts.singular(2, |graph| graph.library.get_or_insert_default());
    }
}

impl InParts for FunctionDefLibrary {
    fn parts(parts: &mut Parts<Self>) {
        parts.repeated(1, |library| &mut library.function);
    }
}

impl InParts for FunctionDef {
    fn parts(parts: &mut Parts<Self>) {
        parts.repeated(3, |function| &mut function.node_def);
    }
}

impl InParts for NodeDef {
    fn parts(_: &mut Parts<Self>) {}
}
