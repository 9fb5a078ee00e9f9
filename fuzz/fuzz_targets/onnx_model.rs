//! Arbitrary bytes as a model: its tensors, and the model with external data.
#![no_main]

use std::io::sink;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use proto_splitter_core::MessageReader;
use proto_splitter_onnx::external::{DEFAULT_ALIGNMENT, ExternalOptions, ExternalPlan};
use proto_splitter_onnx::{ModelTensors, OnnxOptions};

fuzz_target!(|data: &[u8]| {
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
        // Eight bytes for each byte of the model, and the alignment of each tensor.
        let most = size * 8 + plan.tensor_count() as u64 * DEFAULT_ALIGNMENT;
        assert!(plan.data_size() <= most);
    }
});
