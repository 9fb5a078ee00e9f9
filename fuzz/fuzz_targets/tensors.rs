//! Reads arbitrary bytes as a GraphDef or an ONNX model, in one piece and in chunks. Lists its tensors, and checks that all ways to read
//! their elements agree.
#![no_main]

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use proto_splitter_core::formats::{Candidate, Format, OpenOptions, Opened, Registry};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::split::{SizeSplitter, Source, SplitExt, SplitOptions};
use proto_splitter_core::tensor::{DType, Location, TensorInfo};
use proto_splitter_graph_def::GraphDefFormat;
use proto_splitter_onnx::OnnxFormat;

static FORMATS: Registry = Registry::new(&[&GraphDefFormat, &OnnxFormat]);

/// For each kind of model, the format, a file name, the full name of the message type, and the field of a tensor that contains its raw
/// bytes.
const MODELS: [(&dyn Format, &str, &str, &str); 2] = [
    (
        &GraphDefFormat,
        "m.pb",
        "tensorflow.GraphDef",
        "tensor_content",
    ),
    (&OnnxFormat, "m.onnx", "onnx.ModelProto", "raw_data"),
];

/// Size of the largest tensor to read, in bytes. A larger one is skipped, since its shape may claim any size.
const LARGEST: u64 = 1 << 20;

/// Maximum number of tensors to read.
const MOST: usize = 24;

/// Adds models to the corpus. They have a tensor of each type, with its elements in each field that can contain them.
fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("tensors") else {
        return;
    };
    let plant = |kind: u8, name: &str, text: &str| {
        let pool = MODELS[usize::from(kind)]
            .0
            .descriptor_pool()
            .expect("a schema");
        let of = pool.get_message_by_name(MODELS[usize::from(kind)].2);
        let message =
            DynamicMessage::parse_text_format(of.expect("a type"), text).expect("a model");
        let seed = [&[kind], &message.encode_to_vec()[..]].concat();
        std::fs::write(corpus.join(name), seed).expect("a seed");
    };
    let node = |number: u32, elements: &str| {
        format!(
            "node {{ name: 'n{number}' op: 'Const' attr {{ key: 'value' value {{ tensor {{ dtype: {number} tensor_shape {{ dim {{ size: 2 }} }} \
             {elements} }} }} }} }} "
        )
    };
    let elements = |number: u32| match number {
        1 => "float_val: 1 float_val: 2",
        2 => "double_val: 1",
        7 => "string_val: 'x' string_val: 'yz'",
        8 => "scomplex_val: 1 scomplex_val: 2",
        9 => "int64_val: 1 int64_val: -1",
        10 => "bool_val: true",
        14 | 19 => "half_val: 15360",
        17 => "uint32_val: 1",
        18 => "dcomplex_val: 1 dcomplex_val: 2",
        22 => "uint32_val: 1 uint32_val: 2",
        23 => "uint64_val: 1 uint64_val: 2",
        24..=28 => "float8_val: '12'",
        _ => "int_val: 1 int_val: 2",
    };
    let nodes: String = (1..=34)
        .map(|number| node(number, elements(number)))
        .collect();
    plant(0, "graph", &nodes);
    let raw: String = (1..=34)
        .map(|number| node(number, "tensor_content: '0123456789abcdef'"))
        .collect();
    plant(0, "graph-raw", &raw);
    for number in [1, 3, 7, 9] {
        plant(
            0,
            &format!("graph-{number}"),
            &node(number, elements(number)),
        );
    }
    let initializer = |number: u32, elements: &str| {
        format!("initializer {{ name: 't{number}' dims: 2 data_type: {number} {elements} }} ")
    };
    let elements = |number: u32| match number {
        1 | 14 => "float_data: [1, 2, 3, 4]",
        7 => "int64_data: [1, -1]",
        8 => "string_data: ['x', '']",
        11 | 15 => "double_data: [1, 2, 3, 4]",
        12 | 13 => "uint64_data: [1, 2]",
        _ => "int32_data: [1, 2]",
    };
    let graph = |initializers: String| format!("ir_version: 8 graph {{ {initializers} }}");
    let all = (1..=28).map(|number| initializer(number, elements(number)));
    plant(1, "onnx", &graph(all.collect()));
    let raw = (1..=28).map(|number| initializer(number, "raw_data: '01234567'"));
    plant(1, "onnx-raw", &graph(raw.collect()));
    let elsewhere = "data_location: EXTERNAL external_data { key: 'location' value: 'a.bin' }";
    plant(1, "onnx-elsewhere", &graph(initializer(1, elsewhere)));
}

/// Reads the elements of a tensor, in two ways, which must agree. Returns `None` if the tensor is too large or invalid.
fn read(opened: &Opened, info: &TensorInfo) -> Option<Vec<u8>> {
    if info.bytes > LARGEST {
        return None;
    }
    let bytes = opened.read_tensor(info).and_then(|reader| reader.to_vec());
    let mut filled = vec![0; usize::try_from(info.bytes).expect("it is small")];
    let wanted = vec![(info, &mut filled[..])];
    let all = opened.read_tensors_into(wanted, &Progress::default());
    let bytes = match (bytes, all) {
        (Ok(bytes), Ok(())) => bytes,
        (Ok(bytes), Err(error)) => {
            // For a tensor of strings, `to_vec` returns an array of strings of the same length, whose size differs from `info.bytes`.
            assert!(bytes.len() as u64 != info.bytes, "{info}: {error}");
            return None;
        }
        (Err(error), Ok(())) => panic!("{info}: {error}, and is read with others"),
        (Err(_), Err(_)) => return None,
    };
    assert!(bytes == filled, "{info}");
    if let (Some(elements), Some(width)) = (info.elements(), info.dtype.width())
        && !info.is_packed()
    {
        assert_eq!(
            elements.checked_mul(width),
            Some(bytes.len() as u64),
            "{info}"
        );
    }
    Some(bytes)
}

/// Checks the tensors of a model. Returns each of them with its elements, or `None` if it is too large or invalid.
fn tensors(opened: &Opened, content: &str) -> Option<Vec<(TensorInfo, Option<Vec<u8>>)>> {
    let listed = opened.tensors();
    let iterated = opened.tensor_iter().and_then(Iterator::collect);
    let infos: Vec<TensorInfo> = match (listed, iterated) {
        (Ok(listed), Ok(iterated)) => {
            let iterated: Vec<TensorInfo> = iterated;
            assert_eq!(listed, iterated);
            listed
        }
        (Err(_), Err(_)) => return None,
        (listed, iterated) => panic!("{listed:?}, one by one {iterated:?}"),
    };
    let mut known = Vec::new();
    for info in infos.into_iter().take(MOST) {
        let named = opened.find_tensor(&info.name).expect("they are listed");
        assert!(named.is_some(), "{info}");
        let bytes = read(opened, &info);
        if let Some(bytes) = &bytes {
            rows(opened, &info, bytes);
        }
        if info.dtype == DType::String {
            let _ = opened.strings(&info);
        }
        if let Location::Message { text, .. } = &info.location
            && let Some(bytes) = &bytes
        {
            let at_path = opened.tensor_at(text).and_then(|reader| reader.to_vec());
            assert_eq!(&at_path.expect("its path is the tensor's"), bytes, "{info}");
            let raw = opened.get(&format!("{text}.{content}"));
            if let Some(raw) = raw.ok().filter(|raw| !raw.is_empty())
                && info.dtype.width().is_some()
            {
                assert_eq!(&raw[..], &bytes[..], "{info}");
            }
        }
        known.push((info, bytes));
    }
    let sizes = known.iter().filter(|(_, bytes)| bytes.is_some());
    let mut buffers: Vec<(&TensorInfo, &Vec<u8>, Vec<u8>)> = sizes
        .filter_map(|(info, bytes)| {
            bytes
                .as_ref()
                .map(|bytes| (info, bytes, vec![0; bytes.len()]))
        })
        .collect();
    let wanted = buffers
        .iter_mut()
        .map(|(info, _, buffer)| (*info, &mut buffer[..]));
    let wanted = wanted.collect();
    opened
        .read_tensors_into(wanted, &Progress::default())
        .expect("each can be read");
    assert!(buffers.iter().all(|(_, bytes, buffer)| *bytes == buffer));
    Some(known)
}

/// Removes the locations of tensors, which differ between a model in one piece and in chunks.
fn named(tensors: Vec<(TensorInfo, Option<Vec<u8>>)>) -> Vec<(TensorInfo, Option<Vec<u8>>)> {
    let tensors = tensors.into_iter();
    tensors
        .map(|(info, bytes)| (info.located(Location::Nowhere), bytes))
        .collect()
}

/// Checks that the last rows of a tensor, read separately, are the last of its bytes.
fn rows(opened: &Opened, info: &TensorInfo, bytes: &[u8]) {
    let Some(&count) = info.shape.first().filter(|&&count| count > 0) else {
        return;
    };
    let reader = opened.read_tensor(info).expect("it was read");
    let Ok(reader) = reader.rows(count / 2..count) else {
        return;
    };
    let rows = reader.to_vec().expect("it was read");
    assert!(bytes.ends_with(&rows), "{info}");
    let count = usize::try_from(count).expect("it is small");
    assert_eq!(
        rows.len() * count,
        bytes.len() * (count - count / 2),
        "{info}"
    );
}

/// Opens a serialized model of this kind; `None` if that fails.
fn plain(kind: usize, bytes: Vec<u8>) -> Option<Opened> {
    let (format, name, ..) = MODELS[kind];
    let candidate = Candidate::of_source(Path::new(name), Arc::new(bytes));
    let candidate = candidate.expect("it has a size");
    FORMATS.open_input_as(format, &candidate, &options()).ok()
}

/// Opens a model in a chunked file.
fn chunked(bytes: Vec<u8>, of: MessageDescriptor) -> Opened {
    let candidate = Candidate::of_source(Path::new("m.cpb"), Arc::new(bytes));
    let opened = FORMATS.open_input(
        &candidate.expect("it has a size"),
        &options().descriptor(of),
    );
    opened.expect("what was written is opened")
}

fn options() -> OpenOptions {
    OpenOptions::new().threads(NonZeroUsize::MIN)
}

fuzz_target!(init: plant(), |data: &[u8]| {
    let Some((how, model)) = data.split_first() else {
        return;
    };
    let kind = usize::from(how % 2);
    let content = MODELS[kind].3;
    let Some(opened) = self::plain(kind, model.to_vec()) else {
        return;
    };
    let plain = tensors(&opened, content);
    let Some(of) = opened.descriptor().cloned() else {
        return;
    };
    let options = SplitOptions::new()
        .max_chunk_size(100)
        .always_chunked(true)
        .threads(NonZeroUsize::MIN);
    let (source, mut file) = (Source::from_bytes(model.to_vec(), of.clone()), Vec::new());
    let Ok(split) = SizeSplitter.write_to_with(source, &mut file, &options) else {
        return;
    };
    let chunked = tensors(&self::chunked(file, of), content);
    if split.byte_exact {
        assert_eq!(plain.map(named), chunked.map(named));
    }
});
