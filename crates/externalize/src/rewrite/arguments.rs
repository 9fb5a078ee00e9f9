//! Passing the contents of constants to functions as arguments.
//!
//! The caller of a function passes the contents that the function needs, so the caller needs them,
//! too. The outermost functions capture the contents through the object graph. Each captured
//! content exists for as long as the function does, as a captured variable would. The main graph,
//! and functions that can't get more arguments, pass the values of variables instead.

use std::collections::{BTreeMap, BTreeSet};

use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::attr_value::Value;
use proto_splitter_graph_def::proto::op_def::ArgDef;
use proto_splitter_graph_def::proto::{FunctionDef, GraphDef, NodeDef};

use super::Rewriter;
use super::build::{Scope, boxed, handle, read, shape_proto};
use super::constants::replacement;
use super::names::Names;
use crate::call_graph::{CallGraph, function_name, functions, nodes};
use crate::call_sites::{CallSite, call_sites, extensible, has_frames};
use crate::content::Content;
use crate::select::entries;

/// Maximum total number of arguments to add to the functions of a meta graph, and maximum total
/// number of inputs to add to the calls.
const MAX_ARGUMENTS: usize = 1 << 20;

/// Map from the name of each function to the indices of the contents that are passed to it. The
/// indices are those in `Rewriter::contents`.
type Passed = BTreeMap<String, Vec<usize>>;

impl Rewriter<'_> {
    /// Replaces the constants in functions with arguments. A caller that is a function passes its
    /// own arguments; the main graph passes variables, and the object graph captures the contents.
    pub(super) fn pass_arguments(&mut self) -> Result<()> {
        self.arguments = self.needed()?;
        let contents = self.contents;
        let mut passed = Passed::new();
        for (function, arguments) in &self.arguments {
            let graph = self.meta_graph.graph_def.get_or_insert_default();
            let library = graph.library.get_or_insert_default();
            let own = (Some(*function), 0)..=(Some(*function), usize::MAX);
            let places = self
                .of
                .range(own)
                .map(|((_, node), content)| (*node, *content));
            let Some(function) = library.function.get_mut(*function) else {
                continue;
            };
            take_arguments(function, arguments, places, contents)?;
            passed.insert(function_name(function).to_owned(), arguments.clone());
        }
        self.hand_on(&passed)
    }

    /// Returns, for each function that can get arguments, the contents that it needs: those that it
    /// reads, and those that the functions it calls need.
    fn needed(&self) -> Result<BTreeMap<usize, Vec<usize>>> {
        let Some(graph) = &self.meta_graph.graph_def else {
            return Ok(BTreeMap::new());
        };
        let calls = CallGraph::new(graph)?;
        let extensible = extensible(graph, &calls, &entries(self.meta_graph));
        let receivers = receivers(graph, &calls);
        let mut needed = vec![BTreeSet::new(); extensible.len()];
        let mut to_do = Vec::new();
        let mut count = 0;
        let mut need = |function: usize, content: usize, to_do: &mut Vec<(usize, usize)>| {
            if extensible[function] && needed[function].insert(content) {
                count += 1;
                to_do.push((function, content));
            }
            if count <= MAX_ARGUMENTS {
                return Ok(());
            }
            let message =
                format!("functions would need more than {MAX_ARGUMENTS} arguments in total");
            Err(Error::new(ErrorKind::LimitExceeded, message))
        };
        for ((function, _), content) in &self.of {
            if let Some(function) = function {
                need(*function, *content, &mut to_do)?;
            }
        }
        while let Some((function, content)) = to_do.pop() {
            for receiver in &receivers[function] {
                need(*receiver, content, &mut to_do)?;
            }
        }
        let needed = needed.into_iter().enumerate();
        let needed = needed.filter(|(_, contents)| !contents.is_empty());
        Ok(needed
            .map(|(at, contents)| (at, contents.into_iter().collect()))
            .collect())
    }

    /// Fails if all calls together need too many inputs for the contents in `passed`.
    fn check_inputs(&self, passed: &Passed) -> Result<()> {
        let mut count = 0;
        for node in nodes(self.meta_graph) {
            for site in call_sites(node) {
                count += contents_passed(passed, site, node).map_or(0, <[usize]>::len);
                if count > MAX_ARGUMENTS {
                    let message =
                        format!("calls would need more than {MAX_ARGUMENTS} inputs in total");
                    return Err(Error::new(ErrorKind::LimitExceeded, message));
                }
            }
        }
        Ok(())
    }

    /// Adds inputs to all calls. These inputs pass the contents in `passed` to the called
    /// functions.
    fn hand_on(&mut self, passed: &Passed) -> Result<()> {
        self.check_inputs(passed)?;
        let contents = self.contents;
        let mut bodies = BTreeSet::new();
        for function in 0..self.functions().len() {
            let values = if self.arguments.contains_key(&function) {
                Values::Arguments
            } else {
                Values::Variables(Scope::Function)
            };
            let nodes = &mut self.functions()[function].node_def;
            let caller = Caller {
                values,
                passed,
                contents,
            };
            let added = caller.hand_on(nodes, &mut bodies)?;
            if added.nodes.is_empty() {
                continue;
            }
            Names::of(nodes).take(&added.nodes)?;
            nodes.extend(added.nodes);
            self.stateful.insert(function);
            self.in_functions.extend(added.read.into_values());
        }
        let values = Values::Variables(Scope::Main);
        let caller = Caller {
            values,
            passed,
            contents,
        };
        let added = caller.hand_on(&mut self.graph().node, &mut bodies)?;
        self.names.take(&added.nodes)?;
        self.graph().node.extend(added.nodes);
        self.in_main.extend(added.read);
        for function in self.functions() {
            if let Some(arguments) = passed
                .get(function_name(function))
                .filter(|_| bodies.contains(function_name(function)))
            {
                return_arguments(function, arguments, contents);
            }
        }
        Ok(())
    }
}

/// Returns, for each function, the functions that must also get all contents of this function: its
/// callers, and the next function called at the same call site. The last function at a call site is
/// followed by the first, so all of them get the same contents.
fn receivers(graph: &GraphDef, calls: &CallGraph<'_>) -> Vec<BTreeSet<usize>> {
    let functions = functions(graph);
    let mut receivers = vec![BTreeSet::new(); functions.len()];
    let bodies = functions.iter().enumerate();
    let bodies = bodies.map(|(at, function)| (Some(at), &function.node_def));
    for (caller, nodes) in bodies.chain([(None, &graph.node)]) {
        for node in nodes {
            for site in call_sites(node) {
                let names = site.functions_of(node).into_iter();
                let called = names.filter_map(|name| calls.by_name.get(name).copied());
                let called: Vec<usize> = called.collect();
                for (at, function) in called.iter().enumerate() {
                    let next = called.get(at + 1).or_else(|| called.first());
                    receivers[*function].extend(next.copied().into_iter().chain(caller));
                }
            }
        }
    }
    receivers
}

/// Returns the contents to pass to the functions at a call site; `None` if they need none.
fn contents_passed<'p>(passed: &'p Passed, site: &CallSite, node: &NodeDef) -> Option<&'p [usize]> {
    let called = site.functions_of(node);
    let contents = called.first().and_then(|name| passed.get(*name))?;
    Some(contents)
}

/// Returns the name of the argument that passes `content`.
fn argument_name(content: &Content) -> String {
    format!("proto_splitter_{}", content.key)
}

/// Appends arguments for contents to the arguments of a function, and replaces the function's
/// constants with nodes that return these arguments.
fn take_arguments(
    function: &mut FunctionDef,
    arguments: &[usize],
    places: impl Iterator<Item = (usize, usize)>,
    contents: &[Content],
) -> Result<()> {
    let signature = function.signature.get_or_insert_default();
    for content in arguments.iter().map(|content| &contents[*content]) {
        let name = argument_name(content);
        if signature.input_arg.iter().any(|arg| arg.name == name) {
            return Err(Error::invalid(format!(
                "an argument is called {name:?} already"
            )));
        }
        signature.input_arg.push(ArgDef {
            name,
            r#type: content.dtype.into(),
            ..ArgDef::default()
        });
        if let Some(Value::List(shapes)) = function
            .attr
            .get_mut("_input_shapes")
            .and_then(|attr| attr.value.as_mut())
        {
            shapes.shape.push(shape_proto(&content.shape));
        }
    }
    for (node, content) in places {
        if let Some(node) = function.node_def.get_mut(node) {
            let constant = std::mem::take(node);
            let mut inputs = vec![argument_name(&contents[content])];
            inputs.extend(constant.input.iter().cloned());
            // Gradients with respect to a constant aren't needed.
            *node = replacement("StopGradient", constant, inputs, &contents[content]);
        }
    }
    Ok(())
}

/// Makes the body of a loop return the arguments that were added to the body, for the next
/// iteration.
fn return_arguments(function: &mut FunctionDef, arguments: &[usize], contents: &[Content]) {
    for content in arguments.iter().map(|content| &contents[*content]) {
        let argument = argument_name(content);
        let name = format!("{argument}_again");
        if let Some(signature) = &mut function.signature {
            signature.output_arg.push(ArgDef {
                name: name.clone(),
                r#type: content.dtype.into(),
                ..ArgDef::default()
            });
        }
        function.ret.insert(name, argument);
    }
}

/// The values that a caller passes to functions.
#[derive(Clone, Copy)]
enum Values {
    /// The caller's own arguments.
    Arguments,
    /// The values of variables, which new nodes in this scope read.
    Variables(Scope),
}

struct Caller<'a> {
    values: Values,
    passed: &'a Passed,
    contents: &'a [Content],
}

/// The nodes that a caller needs for the additional inputs of its calls.
#[derive(Default)]
struct Added {
    nodes: Vec<NodeDef>,
    /// Map from the name of each new node that reads a variable to the index of the variable's
    /// content in `Caller::contents`.
    read: BTreeMap<String, usize>,
}

impl Caller<'_> {
    /// Adds inputs to all calls among `nodes`, and returns the new nodes that provide these inputs.
    /// Adds to `bodies` the names of the loop bodies that get arguments.
    fn hand_on(&self, nodes: &mut [NodeDef], bodies: &mut BTreeSet<String>) -> Result<Added> {
        let mut added = Added::default();
        let has_frames = has_frames(nodes);
        for node in nodes {
            let sites: Vec<&CallSite> = call_sites(node).collect();
            for site in sites {
                let Some(arguments) = contents_passed(self.passed, site, node) else {
                    continue;
                };
                bodies.extend(site.body_of(node).map(str::to_owned));
                let inputs: Vec<String> = arguments
                    .iter()
                    .map(|content| match self.values {
                        Values::Arguments => argument_name(&self.contents[*content]),
                        Values::Variables(scope) => {
                            self.read(node, scope, *content, has_frames, &mut added)
                        }
                    })
                    .collect();
                let contents = arguments.iter().map(|content| &self.contents[*content]);
                add_inputs(node, site, inputs, contents)?;
            }
        }
        Ok(added)
    }

    /// Adds to `added` the nodes that read a variable, unless they were added before. `content` is
    /// the index of the variable's content in `contents`. Returns the node output that becomes an
    /// input of `call`.
    fn read(
        &self,
        call: &NodeDef,
        scope: Scope,
        content: usize,
        has_frames: bool,
        added: &mut Added,
    ) -> String {
        let of = &self.contents[content];
        let base = format!("{}/proto_splitter_{}", call.name, of.key);
        let (handle_name, read_name) = (format!("{base}_handle"), format!("{base}_read"));
        if !added.read.contains_key(&read_name) {
            // In a TensorFlow 1 loop, inputs must be read in the loop's frame.
            let frame = call.input.first().filter(|_| has_frames);
            let nodes = [
                handle(&handle_name, of)
                    .device(&call.device)
                    .inputs(frame.and_then(|input| after(input, scope)))
                    .build(),
                read(&read_name, scope.output(&handle_name, "resource"), of)
                    .device(&call.device)
                    .build(),
            ];
            added.nodes.extend(nodes);
            added.read.insert(read_name.clone(), content);
        }
        scope.output(&read_name, "value")
    }
}

/// Returns a control input for the node that produces `input`; `None` if `input` is an argument of
/// the function, which no node produces.
fn after(input: &str, scope: Scope) -> Option<String> {
    match (input.strip_prefix('^'), input.split_once(':')) {
        (Some(_), _) => Some(input.to_owned()),
        (None, Some((node, _))) => Some(format!("^{node}")),
        (None, None) => (scope == Scope::Main).then(|| format!("^{input}")),
    }
}

/// Inserts additional inputs into a call, and adds the types of these inputs to the call's
/// attributes.
fn add_inputs<'c>(
    node: &mut NodeDef,
    site: &CallSite,
    inputs: Vec<String>,
    contents: impl Iterator<Item = &'c Content> + Clone,
) -> Result<()> {
    let Some(next) = site.next_input(node) else {
        let message = format!(
            "the call {:?} has too few inputs for a {}",
            node.name, node.op
        );
        return Err(Error::invalid(message));
    };
    node.input.splice(next..next, inputs);
    let types = node
        .attr
        .entry(site.types.to_owned())
        .or_insert_with(|| boxed(Value::List(Box::default())));
    let Some(Value::List(types)) = &mut types.value else {
        let message = format!("the call {:?} has no list {}", node.name, site.types);
        return Err(Error::invalid(message));
    };
    types
        .r#type
        .extend(contents.clone().map(|content| i32::from(content.dtype)));
    if site.body_of(node).is_none() {
        return Ok(());
    }
    for name in ["output_shapes", "_output_shapes"] {
        let shapes = node.attr.get_mut(name).and_then(|attr| attr.value.as_mut());
        if let Some(Value::List(shapes)) = shapes.filter(|shapes| !is_empty(shapes)) {
            shapes
                .shape
                .extend(contents.clone().map(|content| shape_proto(&content.shape)));
        }
    }
    Ok(())
}

/// Returns true if a list has no shapes, in which case it doesn't describe any output.
fn is_empty(value: &Value) -> bool {
    matches!(value, Value::List(list) if list.shape.is_empty())
}
