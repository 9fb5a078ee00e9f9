//! Reading the contents of constants into variables when the main graph is initialized.

use std::collections::{BTreeMap, BTreeSet};

use proto_splitter_core::{Error, Result};
use proto_splitter_graph_def::proto::{DataType, FunctionDef, NodeDef, TensorShapeProto};
use proto_splitter_saved_model::proto::collection_def::{Kind, NodeList};
use proto_splitter_saved_model::proto::tensor_info::Encoding;
use proto_splitter_saved_model::proto::{AssetFileDef, TensorInfo};

use super::build::{self, Node, Scope, handle, restore};
use super::{BUNDLE_NAME, Rewriter, shared_name};
use crate::call_graph::named_functions;
use crate::content::Content;

/// Name of the node that holds the path of the bundle's index. Loaders set this path.
const INDEX_PATH: &str = "proto_splitter_index_path";
/// Name of the node that holds the path of the bundle's data file. Loaders set this path.
const DATA_PATH: &str = "proto_splitter_data_path";

/// Names of the arguments that pass the paths of the bundle's index and data file to added
/// functions.
const ARGUMENTS: [&str; 2] = ["index_path", "data_path"];

/// Name of the node that calls the function that reads contents into variables.
const INITIALIZE: &str = "proto_splitter_initialize";

/// Name of the node that computes the path prefix of the bundle's files.
const PREFIX: &str = "proto_splitter_prefix";

/// Name of the signature in which loaders look up the operation that initializes a graph.
const INIT_SIGNATURE: &str = "__saved_model_init_op";
/// Names of the collections that may list the operation that initializes a graph.
const INIT_COLLECTIONS: [&str; 2] = ["saved_model_main_op", "legacy_init_op"];

/// The assets and functions that were added to a meta graph.
#[derive(Debug)]
pub(super) struct Added {
    /// Index of the bundle's first file among the meta graph's assets.
    pub(super) first_asset: usize,
    /// Name of the function that creates the variables.
    pub(super) create: String,
    /// Name of the function that reads the contents into the variables.
    pub(super) initialize: String,
    /// Name of the function that removes the variables.
    pub(super) destroy: String,
}

impl Rewriter<'_> {
    pub(super) fn add_initialization(&mut self) -> Result<Added> {
        let (create, initialize, destroy) = (
            self.function_name("create"),
            self.function_name("initialize"),
            self.function_name("destroy"),
        );
        let used: Vec<&Content> = self
            .in_functions
            .iter()
            .map(|at| &self.contents[*at])
            .collect();
        let functions = [
            create_function(&create),
            initialize_function(&initialize, &used),
            destroy_function(&destroy, &used),
        ];
        self.functions().extend(functions);
        let first_asset = self.add_assets();
        self.add_nodes(&initialize)?;
        Ok(Added {
            first_asset,
            create,
            initialize,
            destroy,
        })
    }

    fn add_assets(&mut self) -> usize {
        let first = self.meta_graph.asset_file_def.len();
        for (node, suffix) in [(INDEX_PATH, ".index"), (DATA_PATH, ".data-00000-of-00001")] {
            let asset = AssetFileDef {
                filename: format!("{BUNDLE_NAME}{suffix}"),
                tensor_info: Some(TensorInfo {
                    encoding: Some(Encoding::Name(format!("{node}:0"))),
                    ..TensorInfo::default()
                }),
            };
            self.meta_graph.asset_file_def.push(asset);
        }
        first
    }

    /// Adds the nodes that initialize the main graph.
    fn add_nodes(&mut self, initialize: &str) -> Result<()> {
        let contents = self.contents;
        let in_main: BTreeSet<usize> = self.in_main.values().copied().collect();
        let mut nodes = vec![
            build::strings(INDEX_PATH, &["proto_splitter_constants.index"], &[]),
            build::strings(
                DATA_PATH,
                &["proto_splitter_constants.data-00000-of-00001"],
                &[],
            ),
            build::call(INITIALIZE, initialize, [INDEX_PATH, DATA_PATH]),
        ];
        // Importers based on MLIR expect a node with the same name as the variable.
        for content in self.in_functions.union(&in_main) {
            let content = &contents[*content];
            nodes.push(handle(&shared_name(content), content).build());
        }
        let only_main: Vec<usize> = in_main.difference(&self.in_functions).copied().collect();
        let init = self.init_node();
        let read_early = match &init {
            Some(init) => self.read_by_ancestors(init)?,
            None => BTreeMap::new(),
        };
        let restored: BTreeSet<usize> = only_main
            .iter()
            .copied()
            .chain(read_early.values().copied())
            .collect();
        if !restored.is_empty() {
            nodes.push(build::prefix(PREFIX, INDEX_PATH));
        }
        for content in restored {
            let content = &contents[content];
            nodes.extend(restore(
                Scope::Main,
                &restore_name(content),
                PREFIX,
                content,
            ));
        }
        let mut after = vec![format!("^{INITIALIZE}")];
        for content in only_main {
            let content = &contents[content];
            let name = format!("proto_splitter_assign_{}", content.key);
            nodes.push(assign(
                &name,
                shared_name(content),
                restore_name(content),
                content,
            ));
            after.push(format!("^{name}"));
        }
        match init {
            Some(init) => {
                let graph = self.meta_graph.graph_def.get_or_insert_default();
                let node = graph.node.iter_mut().find(|node| node.name == init);
                if let Some(node) = node {
                    after.retain(|input| !node.input.contains(input));
                    node.input.extend(after);
                }
            }
            None => {
                let name = "proto_splitter_init";
                nodes.push(Node::new(name, "NoOp").inputs(after).build());
                self.set_init_node(name);
            }
        }
        self.names.take(&nodes)?;
        self.graph().node.extend(nodes);
        Ok(())
    }

    /// Returns the name of the node that initializes the original main graph, if there is one.
    fn init_node(&self) -> Option<String> {
        let signature = self.meta_graph.signature_def.get(INIT_SIGNATURE);
        let output = signature.and_then(|signature| signature.outputs.get(INIT_SIGNATURE));
        if let Some(Encoding::Name(name)) = output.and_then(|info| info.encoding.as_ref()) {
            return Some(node_of(name).to_owned());
        }
        let lists = INIT_COLLECTIONS.iter().filter_map(|name| {
            match &self.meta_graph.collection_def.get(*name)?.kind {
                Some(Kind::NodeList(list)) => list.value.first(),
                _ => None,
            }
        });
        lists.map(|name| node_of(name).to_owned()).next()
    }

    fn set_init_node(&mut self, name: &str) {
        let info = TensorInfo {
            encoding: Some(Encoding::Name(name.to_owned())),
            tensor_shape: Some(TensorShapeProto {
                unknown_rank: true,
                ..TensorShapeProto::default()
            }),
            ..TensorInfo::default()
        };
        let signatures = &mut self.meta_graph.signature_def;
        let signature = signatures.entry(INIT_SIGNATURE.to_owned()).or_default();
        signature.outputs.insert(INIT_SIGNATURE.to_owned(), info);
        let collections = &mut self.meta_graph.collection_def;
        let collection = collections
            .entry(INIT_COLLECTIONS[0].to_owned())
            .or_default();
        collection.kind = Some(Kind::NodeList(NodeList {
            value: vec![name.to_owned()],
        }));
    }

    /// Rewires the nodes that run before the node `init`, when variables have no values yet. Such a
    /// node reads contents from the bundle instead of from variables. If the node calls functions,
    /// it also waits until the variables have values. Returns the indices of the contents that are
    /// read from the bundle, by the names of the constants.
    fn read_by_ancestors(&mut self, init: &str) -> Result<BTreeMap<String, usize>> {
        let moved = &self.in_main;
        let contents = self.contents;
        let graph = self.meta_graph.graph_def.get_or_insert_default();
        let by_name: BTreeMap<&str, usize> = graph
            .node
            .iter()
            .enumerate()
            .map(|(at, node)| (node.name.as_str(), at))
            .collect();
        let Some(first) = by_name.get(init) else {
            return Err(Error::invalid(format!(
                "{init:?} initializes the model, but isn't there"
            )));
        };
        let mut ancestors = BTreeSet::new();
        let mut to_do = vec![*first];
        while let Some(at) = to_do.pop() {
            if !ancestors.insert(at) {
                continue;
            }
            for input in &graph.node[at].input {
                let Some(input) = by_name.get(node_of(input)) else {
                    let name = &graph.node[at].name;
                    let message =
                        format!("the node {name:?} has the input {input:?}, which isn't there");
                    return Err(Error::invalid(message));
                };
                to_do.push(*input);
            }
        }
        let mut read = BTreeMap::new();
        for at in ancestors {
            let node = &mut graph.node[at];
            if moved.contains_key(&node.name) {
                continue;
            }
            for input in &mut node.input {
                let name = node_of(input).to_owned();
                if let Some(content) = moved.get(&name).filter(|_| !input.starts_with('^')) {
                    *input = restore_name(&contents[*content]);
                    read.insert(name, *content);
                }
            }
            if named_functions(node).next().is_some() {
                node.input.push(format!("^{INITIALIZE}"));
            }
        }
        Ok(read)
    }
}

/// Returns the name of the main graph's node that reads `content` from the bundle.
fn restore_name(content: &Content) -> String {
    format!("proto_splitter_restore_{}", content.key)
}

/// Returns the name of the node to which an input or a control input refers.
fn node_of(input: &str) -> &str {
    let input = input.strip_prefix('^').unwrap_or(input);
    input.split_once(':').map_or(input, |(node, _)| node)
}

fn assign(name: &str, handle: String, value: String, content: &Content) -> NodeDef {
    Node::new(name, "AssignVariableOp")
        .input(handle)
        .input(value)
        .dtype("dtype", content.dtype)
        .flag("validate_shape", true)
        .build()
}

/// Returns the function for `_create_resource`. It does nothing, since the variables are only
/// created when they get their values.
fn create_function(name: &str) -> FunctionDef {
    let mut function = build::function(name, &[], false);
    function.node_def.push(build::one("one", None));
    build::returns(&mut function, DataType::DtInt32, "one:output:0".to_owned());
    function
}

/// Returns a function that reads contents from the bundle into variables, one at a time.
fn initialize_function(name: &str, contents: &[&Content]) -> FunctionDef {
    let mut function = build::function(name, &ARGUMENTS, true);
    let nodes = &mut function.node_def;
    nodes.push(build::prefix("prefix", ARGUMENTS[0]));
    let mut done = Vec::new();
    for content in contents {
        let base = format!("restore_{}", content.key);
        let (handle_name, assign_name) = (
            format!("handle_{}", content.key),
            format!("assign_{}", content.key),
        );
        nodes.extend(restore(Scope::Function, &base, "prefix:output:0", content));
        nodes.push(handle(&handle_name, content).build());
        let scope = Scope::Function;
        let handle = scope.output(&handle_name, "resource");
        nodes.push(assign(
            &assign_name,
            handle,
            scope.output(&base, "tensors"),
            content,
        ));
        done.push(format!("^{assign_name}"));
    }
    finish(&mut function, "initialized", done);
    function
}

/// Returns a function that removes the variables, which frees their memory.
fn destroy_function(name: &str, contents: &[&Content]) -> FunctionDef {
    let mut function = build::function(name, &[], true);
    let nodes = &mut function.node_def;
    let mut done = Vec::new();
    for content in contents {
        let handle_name = format!("handle_{}", content.key);
        let destroy_name = format!("destroy_{}", content.key);
        nodes.push(handle(&handle_name, content).build());
        let destroy = Node::new(&destroy_name, "DestroyResourceOp")
            .input(Scope::Function.output(&handle_name, "resource"))
            .flag("ignore_lookup_error", true);
        nodes.push(destroy.build());
        done.push(format!("^{destroy_name}"));
    }
    finish(&mut function, "destroyed", done);
    function
}

/// Makes a function return the result `output` after the nodes `after` have run.
fn finish(function: &mut FunctionDef, output: &str, after: Vec<String>) {
    function
        .node_def
        .push(Node::new("done", "NoOp").inputs(after).build());
    function.node_def.push(build::one("one", Some("done")));
    build::does(function, output, "done");
    build::returns(function, DataType::DtInt32, "one:output:0".to_owned());
}

/// Returns a function that reads `content` from the bundle and returns it.
pub(super) fn constant_function(name: &str, content: &Content) -> FunctionDef {
    let mut function = build::function(name, &ARGUMENTS, true);
    function
        .node_def
        .push(build::prefix("prefix", ARGUMENTS[0]));
    let nodes = restore(Scope::Function, "restore", "prefix:output:0", content);
    function.node_def.extend(nodes);
    build::returns(&mut function, content.dtype, "restore:tensors:0".to_owned());
    function
}
