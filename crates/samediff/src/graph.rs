//! The graph of a tag: variables without their values, and operations.

mod check;
mod codec;
mod rename;

use std::collections::HashMap;

pub(crate) use check::check;
pub(crate) use codec::{from_bytes, optional_dtype, to_bytes, values};
pub(crate) use rename::rename_variable;

use crate::fb::Object;
use crate::{Nd4jType, VarType};

/// A variable, a constant, a placeholder, or the result of an operation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SameDiffVariable {
    /// Name, unique among the variables.
    pub name: String,
    /// Type of the variable's elements; `None` if it is unknown.
    pub dtype: Option<Nd4jType>,
    /// Kind of the variable.
    pub kind: VarType,
    /// Length of each dimension, or -1 if the length varies; `None` if the shape is unknown.
    pub shape: Option<Vec<i64>>,
    /// Fields of the variable in a classic file, except those that this struct's other fields
    /// represent.
    pub(crate) classic: Object,
}

impl SameDiffVariable {
    /// Creates a variable of the given name, kind, element type and shape.
    ///
    /// ```
    /// use proto_splitter_samediff::{Nd4jType, VarType, SameDiffVariable};
    /// let weights = SameDiffVariable::new("w", VarType::Variable, Nd4jType::Float, [2, 3]);
    /// assert_eq!(weights.shape.as_deref(), Some(&[2, 3][..]));
    /// ```
    pub fn new(
        name: impl Into<String>,
        kind: VarType,
        dtype: Nd4jType,
        shape: impl Into<Vec<i64>>,
    ) -> SameDiffVariable {
        SameDiffVariable {
            name: name.into(),
            dtype: Some(dtype),
            kind,
            shape: Some(shape.into()),
            classic: Object::default(),
        }
    }
}

/// Arguments of an operation in their order, each with its name.
pub type Arguments<T> = Vec<(String, T)>;

/// An operation of a graph, which computes variables from other variables.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Operation {
    /// Name, unique among the operations.
    pub name: String,
    /// Name of the operation's function, such as `add`.
    pub op_name: String,
    /// Code of the operation's family if it is a legacy operation, and otherwise
    /// [`CUSTOM`](Self::CUSTOM).
    pub op_type: i8,
    /// Number of the operation within its family.
    pub op_num: i64,
    /// Names of the variables that the operation reads.
    pub inputs: Vec<String>,
    /// Names of the variables that the operation computes.
    pub outputs: Vec<String>,
    /// Integer arguments.
    pub i_args: Arguments<i64>,
    /// Floating-point arguments.
    pub t_args: Arguments<f64>,
    /// Boolean arguments.
    pub b_args: Arguments<bool>,
    /// Arguments that are element types.
    pub d_args: Arguments<Nd4jType>,
    /// Fields of the operation in a classic file, except those that this struct's other fields
    /// represent.
    pub(crate) classic: Object,
}

impl Operation {
    /// The [`op_type`](Self::op_type) of operations that are identified by name.
    pub const CUSTOM: i8 = 21;

    /// Creates a custom operation that has no inputs, outputs or arguments yet. `op_name` is the
    /// name of the operation's function, such as `add`.
    ///
    /// ```
    /// use proto_splitter_samediff::Operation;
    /// let mut add = Operation::new("sum", "add");
    /// add.inputs = vec!["a".into(), "b".into()];
    /// add.i_args = vec![("axis".into(), 1)];
    /// assert_eq!(add.op_type, Operation::CUSTOM);
    /// ```
    pub fn new(name: impl Into<String>, op_name: impl Into<String>) -> Operation {
        Operation {
            name: name.into(),
            op_name: op_name.into(),
            op_type: Operation::CUSTOM,
            ..Operation::default()
        }
    }
}

/// A graph, which consists of variables and operations.
///
/// ```
/// use proto_splitter_samediff::{Nd4jType, Graph, VarType, SameDiffVariable};
/// let mut graph = Graph::default();
/// graph.variables.push(SameDiffVariable::new("w", VarType::Constant, Nd4jType::Float, []));
/// assert_eq!(graph.variable("w").unwrap().kind, VarType::Constant);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Graph {
    /// Variables. Those that have values are in the order of their lines in `params.txt`.
    pub variables: Vec<SameDiffVariable>,
    /// Operations.
    pub operations: Vec<Operation>,
    /// Names of the variables that training minimizes.
    pub loss_variables: Vec<String>,
    /// Fields of the graph in a classic file, except those that this struct's other fields
    /// represent.
    pub(crate) classic: Object,
}

impl Graph {
    /// Returns the variable with this name, by a linear search.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&SameDiffVariable> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// Returns a map from each variable's name to the variable's index in `variables`.
    pub(crate) fn by_name(&self) -> HashMap<&str, usize> {
        let all = self.variables.iter().enumerate();
        all.map(|(index, variable)| (&*variable.name, index))
            .collect()
    }
}
