//! Additions to the object graph, from which `tf.saved_model.load` builds a model.
//!
//! The loader calls every resource's `_create_resource`. After creating all objects, the loader
//! calls every resource's `_initialize`. It calls `_destroy_resource` when the model is dropped.

use std::collections::BTreeMap;

use proto_splitter_core::{Error, Result};
use proto_splitter_graph_def::proto::{DataType, FunctionDef, VersionDef};
use proto_splitter_saved_model::proto::saved_object::Kind;
use proto_splitter_saved_model::proto::structured_value::Kind as Structure;
use proto_splitter_saved_model::proto::trackable_object_graph::trackable_object::ObjectReference;
use proto_splitter_saved_model::proto::{
    DictValue, SavedAsset, SavedBareConcreteFunction, SavedConcreteFunction, SavedObject,
    SavedObjectGraph, SavedResource, SavedUserObject, StructuredValue, TensorSpecProto, TupleValue,
};

use super::Rewriter;
use super::build::shape_proto;
use super::init::{Added, constant_function};
use crate::call_graph::function_name;
use crate::content::Content;

/// Name of the resource that fills the variables, as a child of the root object.
pub(crate) const CONSTANTS_OBJECT: &str = "_proto_splitter_constants";

/// Name of the asset with the bundle's index, as a child of the resource that fills the variables.
pub(crate) const INDEX_OBJECT: &str = "_proto_splitter_index";

/// An object that is a captured constant: the index of the object, and the index of the constant's
/// content.
pub(super) type Captured = (usize, usize);

/// A callback that creates a function with the given name that returns the given content.
pub(super) type Body<'b> = &'b dyn Fn(&str, &Content) -> Result<FunctionDef>;

impl Rewriter<'_> {
    /// Returns the objects that are moved constants of the main graph.
    pub(super) fn captured_constants(&mut self) -> Vec<Captured> {
        let graph = self.meta_graph.graph_def.get_or_insert_default();
        let by_name: BTreeMap<&str, usize> = graph
            .node
            .iter()
            .enumerate()
            .filter_map(|(at, node)| Some((node.name.as_str(), *self.of.get(&(None, at))?)))
            .collect();
        let objects = self
            .meta_graph
            .object_graph_def
            .iter()
            .flat_map(|graph| &graph.nodes);
        let captured = objects
            .enumerate()
            .filter_map(|(at, object)| match &object.kind {
                Some(Kind::Constant(constant)) => {
                    Some((at, *by_name.get(constant.operation.as_str())?))
                }
                _ => None,
            });
        captured.collect()
    }

    pub(super) fn add_objects(&mut self, added: &Added, captured: &[Captured]) -> Result<()> {
        let mut objects = self.meta_graph.object_graph_def.take().unwrap_or_default();
        let assets = [0, 1].map(|at| {
            let index = i32::try_from(added.first_asset + at).unwrap_or(i32::MAX);
            let asset = SavedAsset {
                asset_file_def_index: index,
            };
            push(&mut objects, Kind::Asset(asset))
        });
        let bound = assets.each_ref().map(|asset| asset.node_id);
        let int = (DataType::DtInt32, &[][..]);
        let mut resource = SavedObject::default();
        for (name, function, bound) in [
            ("_create_resource", &added.create, &[][..]),
            ("_initialize", &added.initialize, &bound[..]),
            ("_destroy_resource", &added.destroy, &[]),
        ] {
            concrete(&mut objects, function, bound, int)?;
            resource
                .children
                .push(named(name, push_function(&mut objects, function)));
        }
        let names = [INDEX_OBJECT, "_proto_splitter_data"];
        for (name, asset) in names.into_iter().zip(assets) {
            resource.children.push(named(name, asset));
        }
        resource.kind = Some(Kind::Resource(SavedResource::default()));
        let resource = push_object(&mut objects, resource);
        match objects.nodes.first_mut() {
            Some(root) => root.children.push(named(CONSTANTS_OBJECT, resource)),
            None => return Err(Error::invalid("the object graph has no objects")),
        }
        let mut captured = captured.to_vec();
        captured.extend(self.bind_arguments(&mut objects));
        let body = |name: &str, content: &Content| Ok(constant_function(name, content));
        self.capture_from(&mut objects, &captured, &bound, &body)?;
        self.meta_graph.object_graph_def = Some(objects);
        Ok(())
    }

    /// Makes functions capture the contents that were appended to their arguments. Adds one object
    /// for each of these contents, and returns the added objects.
    fn bind_arguments(&mut self, objects: &mut SavedObjectGraph) -> Vec<Captured> {
        let arguments = self.arguments.clone();
        let mut made: BTreeMap<usize, i32> = BTreeMap::new();
        let mut captured = Vec::new();
        for (function, passed) in arguments {
            let name = function_name(&self.functions()[function]).to_owned();
            if !objects.concrete_functions.contains_key(&name) {
                continue;
            }
            for content in passed {
                let node = *made.entry(content).or_insert_with(|| {
                    let object = push_object(objects, SavedObject::default());
                    captured.push((objects.nodes.len() - 1, content));
                    object.node_id
                });
                if let Some(function) = objects.concrete_functions.get_mut(&name) {
                    function.bound_inputs.push(node);
                }
            }
        }
        captured
    }

    /// Replaces captured constants with resources. If several constants have the same content, only
    /// the first one becomes a resource, to which all references to the others are redirected.
    /// `body` creates the resource's `_create_resource`, a function that returns the content.
    pub(super) fn capture_from(
        &mut self,
        objects: &mut SavedObjectGraph,
        captured: &[Captured],
        bound: &[i32],
        body: Body<'_>,
    ) -> Result<()> {
        let mut first: BTreeMap<usize, usize> = BTreeMap::new();
        let mut instead: BTreeMap<i32, i32> = BTreeMap::new();
        for (object, content) in captured {
            let kept = *first.entry(*content).or_insert(*object);
            if kept != *object {
                instead.insert(node_id(*object), node_id(kept));
            }
        }
        let replace = |id: &mut i32| {
            if let Some(kept) = instead.get(id) {
                *id = *kept;
            }
        };
        for function in objects.concrete_functions.values_mut() {
            function.bound_inputs.iter_mut().for_each(replace);
        }
        for object in &mut objects.nodes {
            let references = object.children.iter_mut().chain(&mut object.dependencies);
            references.for_each(|reference| replace(&mut reference.node_id));
        }
        for (object, content) in captured {
            if instead.contains_key(&node_id(*object)) {
                objects.nodes[*object] = plain_object();
                continue;
            }
            let content = &self.contents[*content];
            let name = self.function_name("constant");
            let function = body(&name, content)?;
            self.functions().push(function);
            concrete(objects, &name, bound, (content.dtype, &content.shape))?;
            let create = named("_create_resource", push_function(objects, &name));
            let object = &mut objects.nodes[*object];
            object.registered_name.clear();
            object.kind = Some(Kind::Resource(SavedResource::default()));
            object.children.push(create);
        }
        Ok(())
    }
}

/// Returns the id of an object. There are fewer than 2^31 objects, since decoding the model would
/// have failed otherwise.
fn node_id(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX)
}

fn push_object(objects: &mut SavedObjectGraph, object: SavedObject) -> ObjectReference {
    objects.nodes.push(object);
    ObjectReference {
        node_id: node_id(objects.nodes.len() - 1),
        ..ObjectReference::default()
    }
}

fn push(objects: &mut SavedObjectGraph, kind: Kind) -> ObjectReference {
    let object = SavedObject {
        kind: Some(kind),
        ..SavedObject::default()
    };
    push_object(objects, object)
}

fn push_function(objects: &mut SavedObjectGraph, name: &str) -> ObjectReference {
    let function = SavedBareConcreteFunction {
        concrete_function_name: name.to_owned(),
        ..SavedBareConcreteFunction::default()
    };
    push(objects, Kind::BareConcreteFunction(function))
}

fn named(name: &str, to: ObjectReference) -> ObjectReference {
    ObjectReference {
        local_name: name.to_owned(),
        ..to
    }
}

/// Returns an object without a special kind.
pub(crate) fn plain_object() -> SavedObject {
    let user_object = SavedUserObject {
        identifier: "_generic_user_object".to_owned(),
        version: Some(VersionDef {
            producer: 1,
            min_consumer: 1,
            ..VersionDef::default()
        }),
        ..SavedUserObject::default()
    };
    SavedObject {
        kind: Some(Kind::UserObject(user_object)),
        ..SavedObject::default()
    }
}

/// Adds the description of a function, consisting of its captures and its result, to the object
/// graph. The captures are the function's only arguments.
fn concrete(
    objects: &mut SavedObjectGraph,
    name: &str,
    bound: &[i32],
    (dtype, shape): (DataType, &[u64]),
) -> Result<()> {
    let structure = |kind| StructuredValue { kind: Some(kind) };
    let no_arguments = TupleValue {
        values: vec![
            structure(Structure::TupleValue(TupleValue::default())),
            structure(Structure::DictValue(DictValue::default())),
        ],
    };
    let output = TensorSpecProto {
        shape: Some(shape_proto(shape)),
        dtype: dtype.into(),
        ..TensorSpecProto::default()
    };
    let function = SavedConcreteFunction {
        bound_inputs: bound.to_vec(),
        canonicalized_input_signature: Some(structure(Structure::TupleValue(no_arguments))),
        output_signature: Some(structure(Structure::TensorSpecValue(output))),
    };
    match objects.concrete_functions.insert(name.to_owned(), function) {
        None => Ok(()),
        Some(_) => Err(Error::invalid(format!(
            "a concrete function is called {name:?} already"
        ))),
    }
}
