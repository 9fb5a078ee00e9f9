//! The graph of a tag: variables without their values, and operations.

mod check;
mod codec;
mod rename;

use std::collections::HashMap;

pub(crate) use check::check;
pub(crate) use codec::{from_bytes, optional_dtype, to_bytes};
pub(crate) use rename::rename_variable;

use crate::fb::Object;
use crate::{Nd4jType, VarType};

/// A variable, constant, placeholder or result of an operation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SameDiffVariable {
    /// Its name, which no other variable has.
    pub name: String,
    /// The type of its elements, if one is known.
    pub dtype: Option<Nd4jType>,
    /// What it is.
    pub kind: VarType,
    /// The length of each dimension, -1 for one that may have any; nothing if no shape is known.
    pub shape: Option<Vec<i64>>,
    /// What a classic file says besides.
    pub(crate) classic: Object,
}

impl SameDiffVariable {
    /// A variable of this name.
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

/// Named arguments of an operation, in order.
pub type Arguments<T> = Vec<(String, T)>;

/// An operation.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Operation {
    /// Its name, which no other operation has.
    pub name: String,
    /// What it does, as `add`.
    pub op_name: String,
    /// The family of legacy operations that it is from; [`CUSTOM`](Self::CUSTOM) for others.
    pub op_type: i8,
    /// Its number in that family.
    pub op_num: i64,
    /// The variables that it reads.
    pub inputs: Vec<String>,
    /// The variables that it computes.
    pub outputs: Vec<String>,
    /// Integer arguments.
    pub i_args: Arguments<i64>,
    /// Floating-point arguments.
    pub t_args: Arguments<f64>,
    /// Boolean arguments.
    pub b_args: Arguments<bool>,
    /// Types as arguments.
    pub d_args: Arguments<Nd4jType>,
    /// What a classic file says besides.
    pub(crate) classic: Object,
}

impl Operation {
    /// The [`op_type`](Self::op_type) of operations that go by their names.
    pub const CUSTOM: i8 = 21;

    /// A custom operation of this name without inputs, outputs and arguments.
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

/// A graph.
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
    /// Its variables. The order is the one of `params.txt`.
    pub variables: Vec<SameDiffVariable>,
    /// Its operations.
    pub operations: Vec<Operation>,
    /// The variables that training makes small.
    pub loss_variables: Vec<String>,
    /// What a classic file says besides.
    pub(crate) classic: Object,
}

impl Graph {
    /// The variable of this name. It looks through all of them.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&SameDiffVariable> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// The places of the variables, by name.
    pub(crate) fn by_name(&self) -> HashMap<&str, usize> {
        let all = self.variables.iter().enumerate();
        all.map(|(index, variable)| (&*variable.name, index))
            .collect()
    }
}
