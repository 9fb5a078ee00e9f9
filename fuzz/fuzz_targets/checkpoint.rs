//! Reads arbitrary bytes as the index file of a checkpoint. The checkpoint's data file has the
//! bytes from the last 0xff to the end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto_splitter_tensor_bundle::Bundle;

/// Adds the index files of TensorFlow's checkpoints to the corpus.
fn plant() {
    for folder in ["checkpoints", "tensorflow"] {
        proto_splitter_fuzz::plant_fixtures("checkpoint", folder, &["index"]);
    }
}

fuzz_target!(
    init: plant(),
    |data: &[u8]| {
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = folder.path().join("m");
        let at = data.iter().rposition(|&byte| byte == 0xff).unwrap_or(data.len());
        std::fs::write(prefix.with_extension("index"), data).expect("a file");
        std::fs::write(prefix.with_extension("data-00000-of-00001"), &data[at..]).expect("a file");
        let Ok(bundle) = Bundle::open(&prefix) else {
            return;
        };
        for tensor in bundle.tensors().iter().take(20) {
            if let Ok(bytes) = bundle.read(tensor) {
                assert!(bytes.len() as u64 <= 1 << 20);
            }
            let _ = bundle.read_strings(tensor);
        }
    }
);
