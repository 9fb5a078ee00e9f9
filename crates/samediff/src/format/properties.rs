//! The properties of a tag's graph, as names and values to show to the user.

use std::fmt::Display;

use crate::bridge::config_to_json;
use crate::{Arguments, Graph, Operation, SameDiffVariable, VarType};

/// Maximum number of variables to list. The same maximum applies to operations and to loss
/// variables.
const MOST: usize = 1000;

/// Maximum size of a training configuration to show as text, in bytes. If the configuration is
/// larger, only its size is shown.
const MAX_CONFIG: usize = 64 << 10;

/// Returns the properties of a graph and its training configuration, each with a name and a value.
pub(super) fn properties(graph: &Graph, config: Option<&[u8]>) -> Vec<(String, String)> {
    let mut properties = Vec::new();
    let mut put = |name: &str, value: String| properties.push((name.to_owned(), value));
    put("variables", graph.variables.len().to_string());
    put("operations", graph.operations.len().to_string());
    // Variables that are results of operations aren't listed themselves, since the operations are.
    let named = graph
        .variables
        .iter()
        .filter(|variable| variable.kind != VarType::Array);
    let more = named.clone().count().saturating_sub(MOST);
    for variable in named.take(MOST) {
        put(kind(variable.kind), described(variable));
    }
    if more > 0 {
        put("variable", format!("and {more} more"));
    }
    for operation in graph.operations.iter().take(MOST) {
        put("operation", called(operation));
    }
    let more = graph.operations.len().saturating_sub(MOST);
    if more > 0 {
        put("operation", format!("and {more} more"));
    }
    for name in graph.loss_variables.iter().take(MOST) {
        put("loss variable", name.clone());
    }
    if let Some(config) = config {
        let text = config_to_json(config).ok();
        let text = text.filter(|text| text.len() <= MAX_CONFIG);
        let text = text.unwrap_or_else(|| format!("{} bytes", config.len()));
        put("training configuration", text);
    }
    properties
}

fn kind(kind: VarType) -> &'static str {
    match kind {
        VarType::Variable => "variable",
        VarType::Constant => "constant",
        VarType::Placeholder => "placeholder",
        VarType::Array => "array",
    }
}

/// Describes a variable, such as `w FLOAT[2, 3]`. A dimension of variable length is `?`.
fn described(variable: &SameDiffVariable) -> String {
    let mut text = variable.name.clone();
    if let Some(dtype) = variable.dtype {
        text.push_str(&format!(" {dtype}"));
    }
    if let Some(shape) = &variable.shape {
        let dims = shape.iter().map(|&dim| match dim {
            dim if dim < 0 => "?".to_owned(),
            dim => dim.to_string(),
        });
        text.push_str(&format!("[{}]", dims.collect::<Vec<_>>().join(", ")));
    }
    text
}

/// Describes an operation, such as `sum: add(a, b, axis=1) -> c`.
fn called(operation: &Operation) -> String {
    let mut arguments = operation.inputs.clone();
    add(&mut arguments, &operation.i_args);
    add(&mut arguments, &operation.t_args);
    add(&mut arguments, &operation.b_args);
    add(&mut arguments, &operation.d_args);
    let op = match operation.op_name.as_str() {
        "" => format!("{}/{}", operation.op_type, operation.op_num),
        name => name.to_owned(),
    };
    let (name, outputs) = (&operation.name, operation.outputs.join(", "));
    format!("{name}: {op}({}) -> {outputs}", arguments.join(", "))
}

fn add<T: Display>(all: &mut Vec<String>, arguments: &Arguments<T>) {
    let arguments = arguments.iter();
    all.extend(arguments.map(|(name, value)| format!("{name}={value}")));
}
