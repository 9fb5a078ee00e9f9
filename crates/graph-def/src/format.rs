//! The GraphDef format, for the registry of file formats.

use prost_reflect::DescriptorPool;
use proto_splitter_core::Result;
use proto_splitter_core::formats::{Candidate, Confidence, Format, OpenOptions, Opened};
use proto_splitter_core::split::ComposableSplitter;
use proto_splitter_core::tensor::{DType, ElementRule, ShapeRule, TensorRule};
use proto_splitter_core::view::size_tree::NameRule;

use crate::proto::descriptor_pool;
use crate::{GRAPH_DEF, GraphDefSplitter, NAMES};

/// The format of a `tensorflow.GraphDef`: a TensorFlow graph, such as a "frozen" one.
///
/// GraphDef files have arbitrary names and no signature, so they can't be recognized. Either the
/// caller specifies the message type, or a chunked file declares it.
///
/// ```
/// use proto_splitter_core::formats::{Format, OpenOptions, Registry};
/// use proto_splitter_graph_def::{GraphDefFormat, proto::descriptor_pool};
///
/// static FORMATS: Registry = Registry::new(&[&GraphDefFormat]);
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("frozen.pb");
/// std::fs::write(&path, b"\x0a\x03\x0a\x01x")?;
///
/// assert!(FORMATS.open(&path, &OpenOptions::new())?.format().is_none());
/// let graph = descriptor_pool().get_message_by_name("tensorflow.GraphDef");
/// let opened = FORMATS.open(&path, &OpenOptions::new().descriptor(graph))?;
/// assert_eq!(opened.format().map(|format| format.name()), Some("graphdef"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GraphDefFormat;

impl Format for GraphDefFormat {
    fn name(&self) -> &'static str {
        "graphdef"
    }

    fn title(&self) -> &'static str {
        "GraphDef"
    }

    fn recognize(&self, _candidate: &Candidate<'_>) -> Option<Confidence> {
        None
    }

    fn open(&self, input: &Candidate<'_>, options: &OpenOptions) -> Result<Opened> {
        let descriptor = descriptor_pool().get_message_by_name(GRAPH_DEF);
        Opened::of_input(input, descriptor, options)
    }

    fn descriptor_pool(&self) -> Option<&'static DescriptorPool> {
        Some(descriptor_pool())
    }

    fn message_types(&self) -> &'static [&'static str] {
        &[GRAPH_DEF]
    }

    fn splitter(&self, message_type: &str) -> Option<&'static (dyn ComposableSplitter + Sync)> {
        (message_type == GRAPH_DEF).then_some(&GraphDefSplitter as _)
    }

    fn member_names(&self) -> &'static [NameRule] {
        &NAMES
    }

    fn tensor_rules(&self) -> &'static [TensorRule] {
        &[TENSOR]
    }
}

/// The rule for reading tensors stored as `tensorflow.TensorProto`, as defined by `tensor.proto`
/// and `types.proto`.
///
/// `tensor_content` contains the elements as in memory, where an element of fewer than 8 bits
/// occupies a whole byte. The `*_val` fields may have fewer elements than the tensor; in that case,
/// the last element is repeated.
pub const TENSOR: TensorRule = TensorRule {
    names: &[
        ("tensorflow.FunctionDef", &[1, 1]),
        ("tensorflow.NodeDef", &[1]),
    ],
    shape: ShapeRule::Dimensions(2),
    content: 4,
    elements: &[
        ElementRule::new(1, DType::F32, FLOAT_VAL),
        ElementRule::new(2, DType::F64, DOUBLE_VAL),
        ElementRule::new(3, DType::I32, INT_VAL),
        ElementRule::new(4, DType::U8, INT_VAL),
        ElementRule::new(5, DType::I16, INT_VAL),
        ElementRule::new(6, DType::I8, INT_VAL),
        ElementRule::new(7, DType::String, STRING_VAL),
        ElementRule::new(8, DType::C64, SCOMPLEX_VAL),
        ElementRule::new(9, DType::I64, INT64_VAL),
        ElementRule::new(10, DType::Bool, BOOL_VAL),
        ElementRule::new(14, DType::BF16, HALF_VAL),
        ElementRule::new(17, DType::U16, INT_VAL),
        ElementRule::new(18, DType::C128, DCOMPLEX_VAL),
        ElementRule::new(19, DType::F16, HALF_VAL),
        ElementRule::new(22, DType::U32, UINT32_VAL),
        ElementRule::new(23, DType::U64, UINT64_VAL),
        ElementRule::new(24, DType::F8E5M2, FLOAT8_VAL),
        ElementRule::new(25, DType::F8E4M3, FLOAT8_VAL),
        ElementRule::new(26, DType::F8E4M3Fnuz, FLOAT8_VAL),
        ElementRule::new(27, DType::F8E4M3B11Fnuz, FLOAT8_VAL),
        ElementRule::new(28, DType::F8E5M2Fnuz, FLOAT8_VAL),
        ElementRule::new(29, DType::I4, INT_VAL),
        ElementRule::new(30, DType::U4, INT_VAL),
        ElementRule::new(31, DType::I2, INT_VAL),
        ElementRule::new(32, DType::U2, INT_VAL),
        ElementRule::new(33, DType::F4E2M1, FLOAT8_VAL),
        ElementRule::new(11, DType::Other("qint8"), INT_VAL),
        ElementRule::new(12, DType::Other("quint8"), INT_VAL),
        ElementRule::new(13, DType::Other("qint32"), INT_VAL),
        ElementRule::new(15, DType::Other("qint16"), INT_VAL),
        ElementRule::new(16, DType::Other("quint16"), INT_VAL),
        ElementRule::new(20, DType::Other("resource"), RESOURCE_HANDLE_VAL),
        ElementRule::new(21, DType::Other("variant"), VARIANT_VAL),
    ],
    fills_up: true,
    ..TensorRule::new("tensorflow.TensorProto", 1)
};

const FLOAT_VAL: u32 = 5;
const DOUBLE_VAL: u32 = 6;
const INT_VAL: u32 = 7;
const STRING_VAL: u32 = 8;
const SCOMPLEX_VAL: u32 = 9;
const INT64_VAL: u32 = 10;
const BOOL_VAL: u32 = 11;
const DCOMPLEX_VAL: u32 = 12;
const HALF_VAL: u32 = 13;
const RESOURCE_HANDLE_VAL: u32 = 14;
const VARIANT_VAL: u32 = 15;
const UINT32_VAL: u32 = 16;
const UINT64_VAL: u32 = 17;
const FLOAT8_VAL: u32 = 18;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prost::Message;
    use proto_splitter_core::ErrorKind;
    use proto_splitter_core::formats::Registry;
    use proto_splitter_core::progress::Progress;
    use proto_splitter_core::split::{ChunkCompression, Profile, SplitExt, SplitOptions};
    use proto_splitter_core::tensor::{Location, MAX_LIST_MEMORY, TensorInfo};

    use super::*;
    use crate::proto::attr_value::Value;
    use crate::proto::{
        AttrValue, FunctionDef, FunctionDefLibrary, GraphDef, NodeDef, OpDef, TensorProto,
        TensorShapeProto, tensor_shape_proto::Dim,
    };

    static FORMATS: Registry = Registry::new(&[&GraphDefFormat]);

    fn constant(name: &str, tensor: TensorProto) -> NodeDef {
        let value = AttrValue {
            value: Some(Value::Tensor(Box::new(tensor))),
        };
        NodeDef {
            name: name.into(),
            op: "Const".into(),
            attr: [("value".to_owned(), Box::new(value))].into(),
            ..NodeDef::default()
        }
    }

    fn tensor(dtype: i32, sizes: &[i64]) -> TensorProto {
        let dim = sizes.iter().map(|&size| Dim {
            size,
            ..Dim::default()
        });
        TensorProto {
            dtype,
            tensor_shape: Some(TensorShapeProto {
                dim: dim.collect(),
                ..TensorShapeProto::default()
            }),
            ..TensorProto::default()
        }
    }

    /// Returns a graph with four constants: three at the top level, two of which have the same
    /// name, and one in a function.
    fn graph() -> GraphDef {
        let content = |byte| TensorProto {
            tensor_content: vec![byte; 400].into(),
            ..tensor(1, &[10, 10])
        };
        let ones = TensorProto {
            float_val: vec![1.0],
            ..tensor(1, &[3])
        };
        let function = FunctionDef {
            signature: Some(OpDef {
                name: "f".into(),
                ..OpDef::default()
            }),
            node_def: vec![constant("c", content(3))],
            ..FunctionDef::default()
        };
        GraphDef {
            node: vec![
                constant("a", content(1)),
                constant("b", ones),
                constant("a", content(2)),
                NodeDef::default(),
            ],
            library: Some(FunctionDefLibrary {
                function: vec![function],
                ..FunctionDefLibrary::default()
            }),
            ..GraphDef::default()
        }
    }

    fn opened(path: &Path) -> Opened {
        let graph = descriptor_pool().get_message_by_name(GRAPH_DEF);
        let options = OpenOptions::new().descriptor(graph);
        FORMATS.open(path, &options).unwrap()
    }

    #[test]
    fn constants_are_called_by_their_nodes_and_functions_in_any_form() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain.pb");
        std::fs::write(&plain, graph().encode_to_vec()).unwrap();
        let options = SplitOptions::new().max_chunk_size(300);
        let chunked = GraphDefSplitter
            .write_with(&graph(), folder.path().join("chunked"), &options)
            .unwrap();
        for path in [&plain, &chunked.path] {
            let opened = opened(path);
            let tensors = opened.tensors().unwrap();
            let shown: Vec<String> = tensors.iter().map(ToString::to_string).collect();
            let third = "node[2].attr[\"value\"].tensor";
            assert_eq!(
                shown,
                [
                    "a float32[10, 10]".to_owned(),
                    "b float32[3]".into(),
                    format!("{third} float32[10, 10]"),
                    "f/c float32[10, 10]".into(),
                ]
            );
            assert_eq!(tensors[3].bytes, 400);
            let Location::Message { text, .. } = &tensors[3].location else {
                panic!("{:?}", tensors[3].location);
            };
            assert_eq!(
                text,
                "library.function[0].node_def[0].attr[\"value\"].tensor"
            );
            let read = |name| opened.tensor(name).unwrap().to_vec().unwrap();
            assert_eq!(read("f/c"), [3; 400]);
            assert_eq!(read(third), [2; 400]);
            assert_eq!(read("b"), 1f32.to_le_bytes().repeat(3));
            assert_eq!(opened.tensor_at(text).unwrap().to_vec().unwrap(), [3; 400]);
        }
    }

    /// Returns the path of each tensor in a serialized graph, and the tensor's first byte.
    fn places(folder: &Path, message: &[u8]) -> Vec<(String, u8)> {
        let path = folder.join("m.pb");
        std::fs::write(&path, message).unwrap();
        let opened = opened(&path);
        let tensors = opened.tensors().unwrap();
        let place = |info: &TensorInfo| {
            let read = opened.read_tensor(info).unwrap().to_vec().unwrap();
            let Location::Message { text, .. } = &info.location else {
                panic!("{:?}", info.location);
            };
            // Reading the tensor by its path returns the same bytes.
            let by_path = opened.tensor_at(text).unwrap().to_vec().unwrap();
            assert_eq!(by_path, read, "{text}");
            (text.clone(), read[0])
        };
        tensors.iter().map(place).collect()
    }

    #[test]
    fn tensors_of_a_message_in_pieces_are_where_its_paths_lead() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = [graph(), graph()].map(|graph| graph.encode_to_vec());
        let found = places(folder.path(), &[first, second].concat());
        let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
        let value = "attr[\"value\"].tensor";
        let piece = |first: usize, function: usize| {
            let nodes = (first..first + 3).map(|node| format!("node[{node}].{value}"));
            nodes.chain([format!("library.function[{function}].node_def[0].{value}")])
        };
        let expected: Vec<String> = piece(0, 0).chain(piece(4, 1)).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn of_tensors_that_others_take_the_place_of_the_last_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let field = |number: u8, content: &[u8]| {
            let len = u8::try_from(content.len()).unwrap();
            [&[number << 3 | 2, len], content].concat()
        };
        // A one-byte tensor of type uint8.
        let tensor = |byte| field(8, &[&[8, 4][..], &field(4, &[byte])].concat());
        let text = field(2, b"s");
        let entry = |value: &[u8]| field(5, &[field(1, b"value"), field(2, value)].concat());
        let node = |entries: &[Vec<u8>]| field(1, &[field(1, b"n"), entries.concat()].concat());
        let place = "node[0].attr[\"value\"].tensor";
        for (name, message, expected) in [
            (
                "another member of its oneof",
                node(&[entry(&[tensor(1), text.clone(), tensor(2)].concat())]),
                Some(2),
            ),
            (
                "another member at the end",
                node(&[entry(&[tensor(1), text.clone()].concat())]),
                None,
            ),
            (
                "a tensor in two pieces",
                node(&[entry(&[tensor(1), tensor(2)].concat())]),
                Some(2),
            ),
            (
                "the same key again",
                node(&[entry(&tensor(1)), entry(&tensor(3))]),
                Some(3),
            ),
            (
                "the same key with another value",
                node(&[entry(&tensor(1)), entry(&text)]),
                None,
            ),
        ] {
            let found = places(folder.path(), &message);
            let expected: Vec<_> = expected
                .map(|byte| (place.to_owned(), byte))
                .into_iter()
                .collect();
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn a_list_of_tensors_that_would_take_too_much_memory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let field = |number: u8, content: &[u8]| {
            let mut out = vec![number << 3 | 2];
            prost::encoding::encode_varint(content.len() as u64, &mut out);
            [out, content.to_vec()].concat()
        };
        let tensors = field(1, &field(8, &[]).repeat(MAX_LIST_MEMORY / 100));
        let value = field(5, &[field(1, b"value"), field(2, &tensors)].concat());
        let path = folder.path().join("many.pb");
        std::fs::write(&path, field(1, &value)).unwrap();
        let error = opened(&path).tensors().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }

    #[test]
    fn tensors_read_together_are_those_read_by_their_paths_in_any_form() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain.pb");
        std::fs::write(&plain, graph().encode_to_vec()).unwrap();
        let mut forms = vec![plain.clone()];
        for (at, (profile, compression, chunk)) in [
            (Profile::TensorFlow, "none", 300),
            (Profile::TensorFlow, "zstd", 300),
            // Chunk sizes that put all, none, or some of the tensors in separate chunks.
            (Profile::Extended, "none", 100),
            (Profile::Extended, "none", 1 << 20),
            (Profile::Extended, "zstd", 1 << 20),
            (Profile::Extended, "none", 900),
        ]
        .into_iter()
        .enumerate()
        {
            let options = SplitOptions::new()
                .profile(profile)
                .compression(compression.parse::<ChunkCompression>().unwrap())
                .always_chunked(true)
                .value_chunk_size(Some(350))
                .max_chunk_size(chunk);
            let written =
                GraphDefSplitter.write_with(&graph(), folder.path().join(at.to_string()), &options);
            forms.push(written.unwrap().path);
        }
        for path in forms {
            // In `listed`, all tensors are listed first. In `fresh`, each is found by following its
            // path.
            let (listed, fresh) = (opened(&path), opened(&path));
            let tensors = listed.tensors().unwrap();
            let expected: Vec<Vec<u8>> = tensors
                .iter()
                .map(|info| fresh.read_tensor(info).unwrap().to_vec().unwrap())
                .collect();
            let by_one = tensors.iter().map(|info| listed.read_tensor(info));
            let by_one: Vec<_> = by_one.map(|read| read.unwrap().to_vec().unwrap()).collect();
            assert_eq!(by_one, expected, "{path:?}");
            // Reads all tensors, and then only the last one.
            for from in [0, tensors.len() - 1] {
                let mut buffers: Vec<Vec<u8>> =
                    expected.iter().map(|bytes| vec![9; bytes.len()]).collect();
                let wanted = tensors.iter().zip(&mut buffers).skip(from);
                let wanted = wanted.map(|(info, buffer)| (info, &mut buffer[..]));
                listed
                    .read_tensors_into(wanted.collect(), &Progress::none())
                    .unwrap();
                assert_eq!(buffers[from..], expected[from..], "{path:?}");
            }
            // Only a tensor whose bytes are stored unchanged has a location in the file.
            let found = listed.tensor_in_file(&tensors[0]);
            assert_eq!(found.is_some(), path == plain);
            if let Some((file, range)) = found {
                let whole = std::fs::read(file).unwrap();
                let end = usize::try_from(range.end).unwrap();
                assert_eq!(whole[end - expected[0].len()..end], expected[0]);
                assert_eq!(range.end - range.start, tensors[0].bytes);
            }
            assert_eq!(listed.tensor_in_file(&tensors[1]), None);
            let mut short = [0; 3];
            let error = listed
                .read_tensors_into(vec![(&tensors[0], &mut short)], &Progress::none())
                .unwrap_err();
            assert_eq!(
                error.to_string(),
                "tensor \"a\": the buffer has 3 bytes, but the tensor has 400"
            );
        }
    }

    #[test]
    fn a_tensor_that_has_other_bytes_than_its_shape_says_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graph.pb");
        let short = TensorProto {
            tensor_content: vec![0; 7].into(),
            ..tensor(1, &[2])
        };
        let unknown = tensor(1, &[2, -1]);
        let huge = tensor(2, &[i64::MAX, 4]);
        for (tensor, message) in [
            (short, "the tensor's shape requires 8 bytes, but it has 7"),
            (unknown, "a tensor of the shape [2, -1] has no size"),
            (
                huge,
                "a tensor of the shape [9223372036854775807, 4] has no size",
            ),
            (
                tensor_of_strings(),
                "elements of the type string have no fixed width",
            ),
            (tensor(99, &[]), "the tensor's data type 99 is not known"),
        ] {
            let node = vec![constant("n", tensor)];
            let graph = GraphDef {
                node,
                ..GraphDef::default()
            };
            std::fs::write(&path, graph.encode_to_vec()).unwrap();
            let opened = opened(&path);
            assert_eq!(opened.tensors().unwrap().len(), 1);
            let error = opened.tensor("n").unwrap_err().to_string();
            let path = "node[0].attr[\"value\"].tensor";
            assert_eq!(error, format!("{path}: {message}"));
        }
    }

    fn tensor_of_strings() -> TensorProto {
        TensorProto {
            string_val: vec!["s".into()],
            ..tensor(7, &[1])
        }
    }

    #[test]
    fn the_rule_names_fields_that_hold_what_it_says() {
        let tensor = descriptor_pool()
            .get_message_by_name(TENSOR.message)
            .unwrap();
        let name = |number| tensor.get_field(number).unwrap().name().to_owned();
        assert_eq!(name(TENSOR.dtype), "dtype");
        assert_eq!(name(TENSOR.content), "tensor_content");
        let types = tensor.get_field(TENSOR.dtype).unwrap().kind();
        let types = types.as_enum().unwrap().clone();
        for element in TENSOR.elements {
            let number = i32::try_from(element.number).unwrap();
            assert!(types.get_value(number).is_some(), "{}", element.number);
            assert!(name(element.field).ends_with("_val"), "{}", element.dtype);
        }
        for value in types.values() {
            // The number 0 means no type, and stored tensors don't have the types of references.
            let is_stored = value.number() != 0 && !value.name().ends_with("_REF");
            let has_rule = TENSOR
                .elements
                .iter()
                .any(|element| i32::try_from(element.number) == Ok(value.number()));
            assert_eq!(has_rule, is_stored, "{}", value.name());
        }
        for (message, path) in TENSOR.names {
            let mut message = descriptor_pool().get_message_by_name(message).unwrap();
            let (last, above) = path.split_last().unwrap();
            for number in above {
                let field = message.get_field(*number).unwrap();
                message = field.kind().as_message().unwrap().clone();
            }
            assert_eq!(message.get_field(*last).unwrap().name(), "name");
        }
    }
}
