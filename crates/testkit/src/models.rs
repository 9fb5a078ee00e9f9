//! Models of any size, which are written piece by piece, so that only small pieces are in memory.

use std::io::{self, Write};

use proto_splitter_core::wire::put_varint;

use crate::generate::Random;
use crate::sources::Sparse;

/// A message under construction. Large tensors are stored only as the seeds that generate their
/// bytes.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    pieces: Vec<Piece>,
    len: u64,
}

#[derive(Clone, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Floats { seed: u64, len: u64 },
}

impl Parts {
    /// Creates an empty message.
    pub fn new() -> Self {
        Parts::default()
    }

    /// Returns the current size of the message, in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn put(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        match self.pieces.last_mut() {
            Some(Piece::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::Bytes(bytes.to_vec())),
        }
    }

    fn tag(&mut self, number: u32, wire_type: u64) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, u64::from(number) << 3 | wire_type);
        self.put(&bytes);
    }

    fn header(&mut self, number: u32, len: u64) {
        self.tag(number, 2);
        let mut bytes = Vec::new();
        put_varint(&mut bytes, len);
        self.put(&bytes);
    }

    /// Adds a varint field.
    #[must_use]
    pub fn varint(mut self, number: u32, value: u64) -> Self {
        self.tag(number, 0);
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        self.put(&bytes);
        self
    }

    /// Adds a string field.
    #[must_use]
    pub fn text(self, number: u32, value: &str) -> Self {
        self.bytes(number, value.as_bytes())
    }

    /// Adds a bytes field.
    #[must_use]
    pub fn bytes(mut self, number: u32, value: &[u8]) -> Self {
        self.header(number, value.len() as u64);
        self.put(value);
        self
    }

    /// Appends fields that are already serialized.
    #[must_use]
    pub fn raw(mut self, fields: &[u8]) -> Self {
        self.put(fields);
        self
    }

    /// Adds a bytes field that contains `len` bytes of random 32-bit floats between -2 and 2.
    /// `seed` determines their values.
    #[must_use]
    pub fn floats(mut self, number: u32, seed: u64, len: u64) -> Self {
        self.header(number, len);
        self.pieces.push(Piece::Floats { seed, len });
        self.len += len;
        self
    }

    /// Adds a field that contains the message `message`.
    #[must_use]
    pub fn message(mut self, number: u32, message: Parts) -> Self {
        self.header(number, message.len);
        for piece in message.pieces {
            match piece {
                Piece::Bytes(bytes) => self.put(&bytes),
                floats @ Piece::Floats { len, .. } => {
                    self.len += len;
                    self.pieces.push(floats);
                }
            }
        }
        self
    }

    /// Writes the serialized message.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(bytes) => out.write_all(bytes)?,
                Piece::Floats { seed, len } => write_floats(out, *seed, *len)?,
            }
        }
        Ok(())
    }
}

/// Converts a message to a source in which the tensors read as zeros, so that it takes little
/// memory.
impl From<Parts> for Sparse {
    fn from(message: Parts) -> Sparse {
        let pieces = message.pieces.into_iter();
        pieces.fold(Sparse::default(), |source, piece| match piece {
            Piece::Bytes(bytes) => source.bytes(bytes),
            Piece::Floats { len, .. } => source.zeros(len),
        })
    }
}

fn write_floats(out: &mut impl Write, seed: u64, len: u64) -> io::Result<()> {
    const BLOCK: u64 = 1 << 16;
    let mut random = Random::new(seed);
    let mut block = Vec::with_capacity(1 << 16);
    let mut left = len;
    while left > 0 {
        block.clear();
        let take = left.min(BLOCK);
        while (block.len() as u64) < take {
            // The sign and mantissa are random; the exponent is limited, so that the value is below
            // 2.
            let bits = random.number() & 0xbf7f_ffff_bf7f_ffff | 0x3000_0000_3000_0000;
            block.extend_from_slice(&bits.to_le_bytes());
        }
        out.write_all(&block[..usize::try_from(take).unwrap_or(usize::MAX)])?;
        left -= take;
    }
    Ok(())
}

/// Returns a `Const` node with a float tensor of `len` bytes, generated from `seed`.
pub fn constant(name: &str, seed: u64, len: u64) -> Parts {
    let shape = Parts::new().message(2, Parts::new().varint(1, len / 4));
    let tensor = Parts::new()
        .varint(1, 1)
        .message(2, shape)
        .floats(4, seed, len);
    let value = Parts::new()
        .text(1, "value")
        .message(2, Parts::new().message(8, tensor));
    let dtype = Parts::new()
        .text(1, "dtype")
        .message(2, Parts::new().varint(6, 1));
    Parts::new()
        .text(1, name)
        .text(2, "Const")
        .message(5, dtype)
        .message(5, value)
}

/// Returns a small node with two inputs, of about 95 bytes.
pub fn small_node(index: u64) -> Parts {
    let dtype = Parts::new()
        .text(1, "T")
        .message(2, Parts::new().varint(6, 1));
    Parts::new()
        .text(1, &format!("layer_{index}/add_{index}"))
        .text(2, "AddV2")
        .text(3, &format!("layer_{}/add_{}", index / 2, index / 2))
        .text(3, &format!("layer_{}/add_{}", index / 3, index / 3))
        .message(5, dtype)
}

/// The size and composition of a model.
#[derive(Clone, Copy, Debug)]
pub struct ModelSize {
    /// Number of large constants in the graph.
    pub constants: u64,
    /// Number of functions in the library, each with one constant.
    pub functions: u64,
    /// Size of each constant, in bytes.
    pub constant_bytes: u64,
    /// Number of small nodes in the main graph. Each function has a hundredth of this number.
    pub small_nodes: u64,
}

impl ModelSize {
    /// A model of 2.5 GiB, which other protobuf readers reject. It has ten constants of 256 MiB,
    /// six of which are in functions, and 200,000 small nodes in the main graph.
    pub const OVER_THE_LIMIT: ModelSize = ModelSize {
        constants: 4,
        functions: 6,
        constant_bytes: 256 << 20,
        small_nodes: 200_000,
    };
}

/// Returns a `SavedModel` of this size. Its bytes are the same every time.
pub fn saved_model(size: &ModelSize) -> Parts {
    let mut graph = Parts::new();
    for index in 0..size.small_nodes {
        graph = graph.message(1, small_node(index));
    }
    for index in 0..size.constants {
        graph = graph.message(
            1,
            constant(&format!("weights_{index}"), index, size.constant_bytes),
        );
    }
    let mut library = Parts::new();
    for index in 0..size.functions {
        let signature = Parts::new().text(1, &format!("__inference_layer_{index}"));
        let mut function = Parts::new().message(1, signature);
        function = function.message(3, constant("kernel", 1000 + index, size.constant_bytes));
        for node in 0..size.small_nodes / 100 {
            function = function.message(3, small_node(node));
        }
        library = library.message(1, function);
    }
    let graph = graph
        .message(2, library)
        .message(4, Parts::new().varint(1, 1987));
    let info = Parts::new().text(4, "serve").text(5, "2.21.0");
    let meta_graph = Parts::new().message(1, info).message(2, graph);
    Parts::new().varint(1, 1).message(2, meta_graph)
}

#[cfg(test)]
mod tests {
    use record_file::ReadAt;

    use super::*;

    #[test]
    fn a_sparse_source_has_the_message_with_zeros_for_tensors() {
        let model = || constant("kernel", 1, 1 << 12);
        let (mut bytes, source) = (Vec::new(), Sparse::from(model()));
        model().write_to(&mut bytes).unwrap();
        let tensor = bytes.len() - (1 << 12);
        let mut sparse = vec![1; bytes.len()];
        source.read_exact_at(0, &mut sparse).unwrap();
        assert_eq!(sparse[..tensor], bytes[..tensor]);
        assert!(sparse[tensor..].iter().all(|byte| *byte == 0));
        for at in 0..bytes.len() - 8 {
            let mut some = [1; 8];
            source.read_exact_at(at as u64, &mut some).unwrap();
            assert_eq!(some, sparse[at..at + 8], "{at}");
        }
    }

    #[test]
    fn a_model_has_the_length_that_it_says() {
        let size = ModelSize {
            constants: 2,
            functions: 3,
            constant_bytes: 100_004,
            small_nodes: 500,
        };
        let model = saved_model(&size);
        let mut bytes = Vec::new();
        model.write_to(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, model.len());
        assert!(
            model.len() > 500_000 && model.len() < 600_000,
            "{}",
            model.len()
        );
    }
}
