//! Reads arbitrary bytes as an ONNX model, lists its tensors, and plans to move them to external
//! data.
#![no_main]

use std::io::sink;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use prost::Message;
use proto_splitter_core::MessageReader;
use proto_splitter_onnx::external::{DEFAULT_ALIGNMENT, ExternalOptions, ExternalPlan};
use proto_splitter_onnx::{ModelTensors, OnnxOptions};

#[path = "../../crates/onnx/tests/it/support.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests of onnx use more of it"
)]
mod support;

/// Adds ONNX's test models and two more to the corpus: one that has tensors wherever a model can
/// have them, and one with a tensor of each type, whose elements are in typed fields.
fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("onnx_model") else {
        return;
    };
    proto_splitter_fuzz::plant_fixtures("onnx_model", "onnx", &["onnx"]);
    let everywhere = support::everywhere(|number| support::raw("t", support::noise(number, 4)));
    let tensors = (1..=28).map(|data_type| {
        let mut tensor = support::raw("t", []);
        tensor.name = Some(format!("t{data_type}"));
        tensor.dims = vec![2];
        tensor.data_type = Some(data_type);
        tensor.raw_data = None;
        match data_type {
            1 | 14 => tensor.float_data = vec![1.0, 2.0, 3.0, 4.0],
            7 => tensor.int64_data = vec![1, -1],
            8 => tensor.string_data = vec!["x".into(), "".into()],
            11 | 15 => tensor.double_data = vec![1.0, 2.0, 3.0, 4.0],
            12 | 13 => tensor.uint64_data = vec![1, 2],
            _ => tensor.int32_data = vec![1, 2],
        }
        tensor
    });
    let mut typed = support::of_initializers(tensors.collect());
    if let Some(graph) = &mut typed.graph {
        let entries = [("location", "a.bin"), ("offset", "4"), ("length", "2")];
        graph.initializer.push(support::external("e", 2, &entries));
    }
    for (name, model) in [("everywhere", everywhere), ("typed", typed)] {
        std::fs::write(corpus.join(name), model.encode_to_vec()).expect("a seed");
    }
}

fuzz_target!(init: plant(), |data: &[u8]| {
    let size = data.len() as u64;
    let bytes = Arc::new(data.to_vec());
    if let Ok(tensors) = ModelTensors::read(bytes.clone(), size, &OnnxOptions::new()) {
        let _ = tensors.problems();
        for tensor in &tensors {
            if let (Ok(written), Some(len)) =
                (tensors.write_raw(tensor, &mut sink()), tensor.raw_len())
            {
                assert_eq!(written, len);
            }
        }
    }
    let options = ExternalOptions::new()
        .min_size(1)
        .everywhere(true)
        .force(true);
    let model = MessageReader::new(bytes, size);
    if let Ok(plan) = ExternalPlan::new(model, "model.onnx", &options) {
        // The data has at most eight bytes for each byte of the model, plus the alignment of each
        // tensor.
        let most = size * 8 + plan.tensor_count() as u64 * DEFAULT_ALIGNMENT;
        assert!(plan.data_size() <= most);
    }
});
