//! Messages that several benchmarks use.

use crate::models::{ModelSize, Parts, constant, saved_model, small_node};
use proto_splitter_core::split::{LARGEST_MAX_CHUNK_SIZE, SplitOptions};

const MIB: u64 = 1 << 20;

/// Number of functions in [`Workload::W3`].
const FUNCTIONS: u64 = 1000;
/// Number of small nodes in each function of [`Workload::W3`].
const FUNCTION_NODES: u64 = 400;
/// Number of constants in each function of [`Workload::W3`].
const FUNCTION_CONSTANTS: u64 = 8;
/// Size of each constant in a function of [`Workload::W3`], in bytes.
const FUNCTION_CONSTANT_BYTES: u64 = 64 << 10;

/// Size of a constant that isn't cut out of the model of [`graph_and_function`], in bytes.
const INNER_BYTES: u64 = 512 << 10;
/// Number of constants that stay in the model for each constant that is cut out.
const CUT_EVERY: u64 = 64;
/// Size of a constant that is cut out, in bytes.
const CUT_BYTES: u64 = 4 << 20;

/// A message for benchmarks, together with the size of the chunks into which it is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A SavedModel of 1 GiB with four float constants of 256 MiB, split into chunks of 64 MiB.
    /// Each constant is a separate chunk.
    W1,
    /// Like [`W1`](Self::W1), but with twelve constants, so 3 GiB in total.
    W1Large,
    /// A GraphDef with 2,000,000 small nodes, about 190 MB in total, split into chunks of 16 MiB.
    W2,
    /// A GraphDef of 540 MB, split into chunks of 64 KiB. It has 1,000 functions, each with 400
    /// small nodes and eight constants of 64 KiB. Each constant is a separate chunk.
    W3,
    /// Like [`W3`](Self::W3), but split into chunks of 1 MiB.
    W3Coarse,
}

impl Workload {
    /// The workloads for benchmarks that merge into memory.
    pub const MERGED: [Workload; 4] =
        [Workload::W1, Workload::W2, Workload::W3, Workload::W3Coarse];

    /// Number of small nodes in the graph of W1, before its constants.
    pub const W1_SMALL_NODES: u64 = 1000;

    /// Size of each constant in W1, in bytes.
    pub const W1_CONSTANT_BYTES: u64 = 256 * MIB;

    /// Returns the workload's name, which is also the name of its files.
    pub fn name(self) -> &'static str {
        match self {
            Workload::W1 => "w1",
            Workload::W1Large => "w1-large",
            Workload::W2 => "w2",
            Workload::W3 => "w3",
            Workload::W3Coarse => "w3-coarse",
        }
    }

    /// Returns the full name of the message's type.
    pub fn type_name(self) -> &'static str {
        match self {
            Workload::W1 | Workload::W1Large => "tensorflow.SavedModel",
            Workload::W2 | Workload::W3 | Workload::W3Coarse => "tensorflow.GraphDef",
        }
    }

    /// Returns the message. For quick runs, it is `scale` times smaller.
    pub fn message(self, scale: u64) -> Parts {
        match self {
            Workload::W1 => constants(4, scale),
            Workload::W1Large => constants(12, scale),
            Workload::W2 => small_nodes(2_000_000 / scale),
            Workload::W3 | Workload::W3Coarse => functions(scale),
        }
    }

    /// Returns the maximum chunk size, in bytes, for a message that is `scale` times smaller than
    /// the workload's full message.
    pub fn max_chunk_size(self, scale: u64) -> u64 {
        match self {
            Workload::W1 | Workload::W1Large => 64 * MIB / scale,
            Workload::W2 => 16 * MIB / scale,
            Workload::W3 => FUNCTION_CONSTANT_BYTES,
            Workload::W3Coarse => MIB,
        }
    }

    /// Returns the options for splitting a message that is `scale` times smaller than the
    /// workload's full message. A constant becomes a chunk unless it is smaller than the maximum
    /// chunk size.
    ///
    /// # Panics
    ///
    /// If the maximum chunk size would be 0.
    pub fn split_options(self, scale: u64) -> SplitOptions {
        let max = self.max_chunk_size(scale);
        assert!((1..=LARGEST_MAX_CHUNK_SIZE).contains(&max), "{max}");
        let options = SplitOptions::new().max_chunk_size(max);
        options.value_chunk_size(Some(max))
    }
}

/// Returns a graph with `count` small nodes.
pub fn small_nodes(count: u64) -> Parts {
    (0..count).fold(Parts::new(), |graph, index| {
        graph.message(1, small_node(index))
    })
}

/// Returns a graph with a function. The graph and the function each contain `bytes` bytes of
/// constants of 512 KiB, and some constants of 4 MiB, which a split cuts out. If the maximum chunk
/// size is at most one and a half times `bytes`, the graph and the function become separate chunks,
/// and a merge splices other chunks into both.
pub fn graph_and_function(bytes: u64) -> Parts {
    let nodes = |message: Parts, number: u32, seed: u64| {
        (0..bytes / INNER_BYTES).fold(message, |message, at| {
            let seed = seed + at;
            let inner = constant(&format!("inner_{at}"), seed, INNER_BYTES);
            let message = message.message(number, inner);
            if at % CUT_EVERY != CUT_EVERY / 2 {
                return message;
            }
            message.message(
                number,
                constant(&format!("cut_{at}"), seed << 32, CUT_BYTES),
            )
        })
    };
    let signature = Parts::new().text(1, "__inference_all");
    let function = nodes(Parts::new().message(1, signature), 3, 1 << 16);
    nodes(Parts::new(), 1, 1).message(2, Parts::new().message(1, function))
}

fn constants(count: u64, scale: u64) -> Parts {
    saved_model(&ModelSize {
        constants: count,
        functions: 0,
        constant_bytes: Workload::W1_CONSTANT_BYTES / scale,
        small_nodes: Workload::W1_SMALL_NODES,
    })
}

fn functions(scale: u64) -> Parts {
    let mut library = Parts::new();
    for index in 0..FUNCTIONS / scale {
        let name = Parts::new().text(1, &format!("__inference_layer_{index}"));
        let mut function = Parts::new().message(1, name);
        for node in 0..FUNCTION_NODES {
            function = function.message(3, small_node(node));
        }
        for at in 0..FUNCTION_CONSTANTS {
            let seed = index * FUNCTION_CONSTANTS + at;
            let kernel = constant(&format!("kernel_{at}"), seed, FUNCTION_CONSTANT_BYTES);
            function = function.message(3, kernel);
        }
        library = library.message(1, function);
    }
    Parts::new().message(2, library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_have_the_sizes_that_are_told_of_them() {
        for (workload, least, most) in [
            (Workload::W1, 1 << 30, (1 << 30) + MIB),
            (Workload::W1Large, 3 << 30, (3 << 30) + MIB),
            (Workload::W2, 180_000_000, 200_000_000),
            (Workload::W3, 530_000_000, 570_000_000),
        ] {
            let size = workload.message(1).len();
            assert!((least..most).contains(&size), "{workload:?}: {size}");
        }
    }
}
