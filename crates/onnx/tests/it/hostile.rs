//! Malicious and damaged models.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use prost::Message;
use proto_splitter_core::{ErrorKind, MessageReader};
use proto_splitter_onnx::external::{ExternalOptions, ExternalPlan};
use proto_splitter_onnx::proto::{AttributeProto, GraphProto, NodeProto, TensorProto};
use proto_splitter_onnx::{
    ExternalReference, MAX_ENTRIES, MAX_ENTRY_LEN, MAX_RANK, MAX_TENSOR_NAME, ModelTensors,
    OnnxOptions,
};

use crate::support::{
    UINT8, branch, bytes_of, entry, everywhere, external, model, noise, of_initializers, open, raw,
    write,
};

#[test]
fn graphs_in_graphs_without_end_are_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut graph = GraphProto::default();
    for _ in 0..60 {
        graph = GraphProto {
            node: vec![branch("b", graph)],
            ..Default::default()
        };
    }
    let path = write(folder.path(), &model(graph));
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(
        error.to_string().contains("messages nest deeper than 100"),
        "{error}"
    );
}

#[test]
fn a_cut_model_names_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &of_initializers(vec![raw("t", [7; 100])]));
    let bytes = fs::read(&path).unwrap();
    for len in [1, 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..len]).unwrap();
        let error = open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{len}: {error}");
        assert!(error.offset().is_some(), "{len}: {error}");
        assert!(error.to_string().starts_with(&path.display().to_string()));
    }
}

#[test]
fn what_is_too_long_or_too_much_is_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(usize::try_from(MAX_ENTRY_LEN).unwrap() + 1);
    let name = "x".repeat(usize::try_from(MAX_TENSOR_NAME).unwrap() + 1);
    let dims = vec![1; MAX_RANK + 1];
    for (tensor, why) in [
        (
            external("t", 1, &[("location", &long)]),
            "an entry of external_data has more than",
        ),
        (
            external("t", 1, &[(&long, "w")]),
            "an entry of external_data has more than",
        ),
        (
            external("t", 1, &vec![("k", "v"); MAX_ENTRIES + 1]),
            "entries of external_data",
        ),
        (raw(&name, [1]), "a tensor's name has more than"),
        (
            TensorProto {
                dims,
                ..raw("t", [1])
            },
            "dimensions",
        ),
    ] {
        let path = write(folder.path(), &of_initializers(vec![tensor]));
        let error = open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(
            error.to_string().contains("graph.initializer[0]"),
            "{error}"
        );
    }
}

/// Returns a serialized model: a node with a large name, which the names of the `tensors` tensors
/// below it contain, and then a node with this number of attributes, each with a tensor.
fn repetitive(tensors: usize, attributes: usize) -> Vec<u8> {
    let graph = GraphProto {
        initializer: vec![raw("t", [7; 64]); tensors],
        ..Default::default()
    };
    let attribute = AttributeProto {
        t: Some(TensorProto::default()),
        ..Default::default()
    };
    let second = NodeProto {
        attribute: vec![attribute; attributes],
        ..Default::default()
    };
    let outer = GraphProto {
        node: vec![branch(&"a".repeat(1 << 20), graph), second],
        ..Default::default()
    };
    model(outer).encode_to_vec()
}

#[test]
fn names_and_paths_that_tensors_have_in_common_have_a_limited_total_size() {
    // The names of 255 tensors are almost too large, so that the paths of attributes exceed the
    // limit.
    for (tensors, attributes, place) in [
        (300, 0, "graph.node[0].attribute[0].g.initializer["),
        (255, 60_000, "graph.node[1].attribute["),
    ] {
        let bytes = repetitive(tensors, attributes);
        let size = bytes.len() as u64;
        let listed = ModelTensors::read(Arc::new(bytes), size, &OnnxOptions::new());
        let error = listed.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        let text = error.to_string();
        assert!(text.contains("the names of the tensors"), "{text}");
        assert!(text.contains(place), "{text}");
    }
    let bytes = repetitive(300, 0);
    let size = bytes.len() as u64;
    let model = MessageReader::new(Arc::new(bytes), size);
    let options = ExternalOptions::new().min_size(64);
    let error = ExternalPlan::new(model, "m.onnx", &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

#[test]
fn absurd_shapes_are_errors_and_nothing_is_allocated_for_them() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w"), b"0123").unwrap();
    for dims in [
        vec![i64::MAX, i64::MAX],
        vec![-1],
        vec![i64::MIN],
        vec![1 << 62, 4],
    ] {
        let mut tensor = external("t", 4, &[("location", "w"), ("length", "5")]);
        tensor.dims = dims.clone();
        let path = write(folder.path(), &of_initializers(vec![tensor]));
        let error = open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{dims:?}: {error}");

        let mut tensor = raw("t", *b"0123");
        tensor.dims = dims;
        let path = write(folder.path(), &of_initializers(vec![tensor]));
        let tensors = open(&path).unwrap().tensors().unwrap();
        assert_eq!(tensors.problems().unwrap().len(), 1);
    }
}

#[test]
fn data_that_changes_after_it_was_opened_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("w");
    fs::write(&data, b"0123").unwrap();
    let path = write(
        folder.path(),
        &of_initializers(vec![external("t", 4, &[("location", "w")])]),
    );
    let source = open(&path).unwrap();
    assert!(!bytes_of(&source).is_empty());
    fs::write(&data, b"012").unwrap();
    let mut buffer = vec![0; usize::try_from(source.size()).unwrap()];
    let error = source.reader().read_exact_at(0, &mut buffer).unwrap_err();
    let error = proto_splitter_core::Error::from(error);
    assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
}

#[test]
fn problems_are_a_line_each() {
    let folder = tempfile::tempdir().unwrap();
    let mut short = raw("short", [1, 2]);
    short.dims = vec![3];
    let mut untyped = raw("untyped", [1]);
    untyped.data_type = None;
    let mut empty = raw("empty", []);
    empty.raw_data = None;
    empty.dims = vec![5];
    let mut typed = TensorProto {
        data_type: Some(UINT8),
        dims: vec![3],
        ..Default::default()
    };
    typed.int32_data = vec![1, 2];
    let model = of_initializers(vec![
        short,
        untyped,
        empty,
        typed,
        raw("twice", [1]),
        raw("twice", [1]),
        raw("fine", [1]),
    ]);
    let path = write(folder.path(), &model);
    let problems = open(&path).unwrap().tensors().unwrap().problems().unwrap();
    assert_eq!(
        problems,
        [
            "graph.initializer[0]: \"short\": it has 2 bytes, but its type and shape require 3",
            "graph.initializer[1]: \"untyped\": its type is undefined",
            "graph.initializer[2]: \"empty\": it has no data",
            "graph.initializer[3]: \"\": it has 2 bytes, but its type and shape require 3",
            "graph.initializer[5]: another initializer is called \"twice\": graph.initializer[4]",
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damaged_models_are_errors_or_models(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("w"), noise(1, 100)).unwrap();
        let mut model = everywhere(|number| raw(&number.to_string(), noise(number, 20)));
        let graph = model.graph.as_mut().unwrap();
        graph.initializer.push(external("t", 4, &[("location", "w"), ("offset", "3")]));
        let mut bytes = model.encode_to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(cut.index(bytes.len() * 2) + 1);
        let path = folder.path().join("model.onnx");
        fs::write(&path, &bytes).unwrap();
        if let Ok(source) = open(&path) {
            let bytes = bytes_of(&source);
            prop_assert_eq!(bytes.len() as u64, source.size());
            if let Ok(tensors) = source.tensors() {
                let _ = tensors.problems();
                for tensor in &tensors {
                    let _ = tensors.write_raw(tensor, &mut std::io::sink());
                }
            }
        }
    }

    #[test]
    fn no_location_leads_out_of_the_folder(location in "[./a\\\\:~ \u{0}-]{0,12}") {
        if let Ok(found) = ExternalReference::parse([("location", location.as_str())]) {
            let normal = |part| matches!(part, std::path::Component::Normal(_));
            prop_assert!(found.location.components().all(normal), "{:?}", found.location);
            prop_assert!(found.location.components().next().is_some());
        }
    }
}

#[test]
fn entries_that_are_no_entries_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensor = external("t", 4, &[]);
    tensor.external_data = vec![entry("location", "w")];
    let mut bytes = of_initializers(vec![tensor]).encode_to_vec();
    // Puts invalid UTF-8 in the location.
    let at = bytes
        .windows(3)
        .position(|three| three == b"\x12\x01w")
        .unwrap();
    bytes[at + 2] = 0xff;
    let path = folder.path().join("model.onnx");
    fs::write(&path, bytes).unwrap();
    let error = open(&path).unwrap_err();
    assert!(
        error.to_string().contains("external_data is not UTF-8"),
        "{error}"
    );
}

#[test]
fn a_shape_far_beyond_the_elements_makes_no_plan() {
    let mut tensor = raw("t", []);
    tensor.raw_data = None;
    tensor.dims = vec![1 << 50];
    tensor.int32_data = vec![7; 3];
    let model = of_initializers(vec![tensor]).encode_to_vec();
    let size = model.len() as u64;
    let model = MessageReader::new(Arc::new(model), size);
    let plan = ExternalPlan::new(model, "m.onnx", &ExternalOptions::new());
    let error = plan.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidMessage);
    assert_eq!(
        error.path().map(ToString::to_string).as_deref(),
        Some("graph.initializer[0]")
    );
    let why = "its shape makes 1125899906842624 bytes, but it has fewer elements";
    assert!(error.to_string().contains(why), "{error}");
}
