//! Dependency graphs, and finding their cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::modules::{Crate, Reference};

/// A graph of dependencies between named nodes. Each dependency has the first line of code that
/// causes it.
pub(crate) struct Graph {
    what: String,
    edges: BTreeMap<String, BTreeMap<String, String>>,
}

impl Graph {
    fn new(what: String) -> Graph {
        let edges = BTreeMap::new();
        Graph { what, edges }
    }

    fn add(&mut self, from: &str, to: &str, why: &str) {
        if from != to {
            let targets = self.edges.entry(from.to_owned()).or_default();
            targets
                .entry(to.to_owned())
                .or_insert_with(|| why.to_owned());
        }
    }

    /// Returns the graph of the dependencies between a crate's files.
    pub(crate) fn of_files(sources: &Crate, references: &[Reference]) -> Graph {
        let mut graph = Graph::new("files".into());
        for reference in references {
            let (from, to) = (
                &sources.modules[reference.from],
                &sources.modules[reference.to],
            );
            graph.add(&from.file, &to.file, &why(sources, reference));
        }
        graph
    }

    /// Returns, for each module with children, the graph of the dependencies between them. A child
    /// includes all modules inside it. The graph of the root's children is first.
    pub(crate) fn of_levels(sources: &Crate, references: &[Reference]) -> Vec<Graph> {
        let mut graphs: BTreeMap<usize, Graph> = BTreeMap::new();
        for reference in references {
            let (from, to) = (way(sources, reference.from), way(sources, reference.to));
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            let level = from[shared - 1];
            let name = |way: &[usize]| {
                let below = way.get(shared).map(|&at| sources.modules[at].name.clone());
                below.unwrap_or_else(|| format!("{} itself", sources.modules[level].name))
            };
            let graph = graphs.entry(level).or_insert_with(|| {
                Graph::new(format!("modules of {}", sources.modules[level].name))
            });
            graph.add(&name(&from), &name(&to), &why(sources, reference));
        }
        graphs.into_values().collect()
    }
}

impl Graph {
    /// Returns the number of dependencies in the graph.
    pub(crate) fn dependencies(&self) -> usize {
        self.edges.values().map(BTreeMap::len).sum()
    }

    /// Returns the nodes of the longest chain of dependencies, each of which depends on the next
    /// one. The graph must have no cycles.
    pub(crate) fn longest_chain(&self) -> Vec<&str> {
        fn from<'g>(
            graph: &'g Graph,
            node: &'g str,
            known: &mut BTreeMap<&'g str, Vec<&'g str>>,
        ) -> Vec<&'g str> {
            if let Some(chain) = known.get(node) {
                return chain.clone();
            }
            let targets = graph.edges.get(node).into_iter().flat_map(BTreeMap::keys);
            let below = targets.map(|target| from(graph, target, known));
            let below = below.max_by_key(Vec::len).unwrap_or_default();
            let chain = [&[node][..], &below].concat();
            known.insert(node, chain.clone());
            chain
        }
        let mut known = BTreeMap::new();
        let nodes = self.edges.keys();
        let chains = nodes.map(|node| from(self, node, &mut known));
        chains.max_by_key(Vec::len).unwrap_or_default()
    }
}

/// Returns the path of modules from the root to `module`, including both.
fn way(sources: &Crate, module: usize) -> Vec<usize> {
    let parents = std::iter::successors(Some(module), |&at| sources.modules[at].parent);
    let mut way: Vec<usize> = parents.collect();
    way.reverse();
    way
}

fn why(sources: &Crate, reference: &Reference) -> String {
    let file = &sources.modules[reference.from].file;
    format!("{file}:{}, {}", reference.line, reference.text)
}

/// Describes the cycles of a graph. Repeatedly finds a shortest cycle and removes its dependencies,
/// until there is none.
pub(crate) fn cycles_of(mut graph: Graph) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(ring) = shortest(&graph) {
        let mut text = format!("{}: {}", graph.what, ring[0]);
        for (from, to) in ring.iter().zip(ring.iter().cycle().skip(1)) {
            let why = graph.edges.get_mut(from).and_then(|edges| edges.remove(to));
            let _ = write!(text, " -> {to} ({})", why.unwrap_or_default());
        }
        found.push(text);
    }
    found
}

/// Returns a shortest cycle in a graph; `None` if there is no cycle.
fn shortest(graph: &Graph) -> Option<Vec<String>> {
    let rings = graph.edges.keys().filter_map(|start| ring(graph, start));
    let shortest = rings.min_by_key(Vec::len)?;
    Some(shortest.into_iter().cloned().collect())
}

/// Returns the shortest path from a node back to itself, by breadth-first search; `None` if there
/// is none.
fn ring<'a>(graph: &'a Graph, start: &'a String) -> Option<Vec<&'a String>> {
    let mut seen = BTreeSet::new();
    let mut ways = vec![vec![start]];
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let targets = graph.edges.get(way[way.len() - 1]);
            for target in targets.into_iter().flat_map(BTreeMap::keys) {
                if target == start {
                    return Some(way);
                }
                if seen.insert(target) {
                    longer.push([&way[..], &[target]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}
