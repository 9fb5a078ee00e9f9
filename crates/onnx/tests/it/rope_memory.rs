//! Checks that a model takes about 100 bytes of memory for each external tensor. This test has its
//! own process, since it counts the process's allocations.

use std::fs;

use peak_alloc::PeakAlloc;
use prost::Message;
use proto_splitter_onnx::proto::{GraphProto, ModelProto, StringStringEntryProto, TensorProto};
use proto_splitter_onnx::{OnnxOptions, OnnxSource};

use crate::own_process::in_own_process;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const TENSORS: usize = 50_000;

fn external(at: usize) -> TensorProto {
    let entry = |key: &str, value: String| StringStringEntryProto {
        key: Some(key.into()),
        value: Some(value),
    };
    TensorProto {
        dims: vec![2],
        data_type: Some(1),
        name: Some(format!("a.model.of.many.layers.{at}.weight")),
        external_data: vec![
            entry("location", "model.data".into()),
            entry("offset", (at * 8).to_string()),
            entry("length", 8.to_string()),
        ],
        data_location: Some(1),
        ..Default::default()
    }
}

#[test]
fn tensors_in_other_files_take_about_a_hundred_bytes_each() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        let graph = GraphProto {
            initializer: (0..TENSORS).map(external).collect(),
            ..Default::default()
        };
        let model = ModelProto {
            graph: Some(graph),
            ..Default::default()
        };
        fs::write(&path, model.encode_to_vec()).unwrap();
        fs::write(folder.path().join("model.data"), vec![1; TENSORS * 8]).unwrap();
        drop(model);

        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage();
        let source = OnnxSource::open(&path, &OnnxOptions::new()).unwrap();
        let kept = (MEMORY.current_usage() - before) / TENSORS;
        let most = (MEMORY.peak_usage() - before) / TENSORS;
        assert_eq!(source.external_tensors(), TENSORS);
        assert!(kept <= 120, "{kept} bytes are kept of each tensor");
        // A growing list takes up to twice the memory.
        assert!(
            most <= 250,
            "{most} bytes of each tensor while it is opened"
        );
    });
}
