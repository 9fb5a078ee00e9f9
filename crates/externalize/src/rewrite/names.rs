//! The names that a graph already uses.

use std::collections::BTreeSet;

use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::{GraphDef, NodeDef};

use crate::call_graph::{function_name, functions};

/// Text that is part of all names added by this crate.
const OURS: &str = "proto_splitter";

/// The names in a graph that could conflict with names added by this crate.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    pub(super) fn of(nodes: &[NodeDef]) -> Self {
        let ours = nodes.iter().filter(|node| node.name.contains(OURS));
        Names {
            taken: ours.map(|node| node.name.clone()).collect(),
        }
    }

    /// Adds the names of new nodes. Fails if the graph already uses one of them.
    pub(super) fn take<'n>(&mut self, nodes: impl IntoIterator<Item = &'n NodeDef>) -> Result<()> {
        for node in nodes {
            if node.name.contains(OURS) && !self.taken.insert(node.name.clone()) {
                let message = format!(
                    "a node is called {:?} already: was the model externalized before?",
                    node.name
                );
                return Err(Error::new(ErrorKind::InvalidMessage, message));
            }
        }
        Ok(())
    }
}

/// Returns a number larger than all numbers at the ends of function names in a graph.
pub(super) fn next_function(graph: &GraphDef) -> Result<u64> {
    let number = |name: &str| name.rsplit_once('_')?.1.parse::<u64>().ok();
    let numbers = functions(graph)
        .iter()
        .filter_map(|function| number(function_name(function)));
    // This leaves enough numbers for the largest possible number of added functions.
    let last = numbers.max().unwrap_or(0);
    if last < u64::MAX >> 2 {
        Ok(last + 1)
    } else {
        let message = format!("a function's name ends with the number {last}");
        Err(Error::new(ErrorKind::LimitExceeded, message))
    }
}
