#![no_main]

use std::io::Write;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use proto_splitter_samediff::{
    CheckOptions, Draft, Model, ModelOptions, SameDiffLimits, import_with,
};

fuzz_target!(init: proto_splitter_fuzz::plant_samediff(), |data: &[u8]| {
    let limits = SameDiffLimits::new().max_text_size(1 << 20).max_graph_size(1 << 20);
    let options = ModelOptions::new().limits(limits);
    imported(data, &options);
    if let Ok(model) = Model::from_source(Arc::new(data.to_vec()), &options) {
        opened(&model);
    }
});

/// Imports the bytes as a model in another format, and reads the beginning of each parameter.
fn imported(data: &[u8], options: &ModelOptions) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(data).expect("room for a file");
    if let Ok(content) = import_with(file.path(), options) {
        for (_, array) in content.parameters() {
            if let Ok(values) = array.values() {
                let _ = values.read_to_vec(1 << 20);
            }
        }
        let _ = Draft::new().add_tag("t".parse().expect("a tag"), content);
    }
}

fn opened(model: &Model) {
    let checked = model.check(&CheckOptions::new());
    let _ = Draft::open(model);
    for tag in model.tags() {
        let Ok(parameters) = tag.parameters() else {
            continue;
        };
        for (_, files) in parameters.iter() {
            for file in files {
                let Ok(array) = parameters.open(file) else {
                    continue;
                };
                if let Ok(values) = array.values() {
                    let _ = values.read_to_vec(1 << 20);
                }
                let _ = array.strings();
            }
        }
    }
    drop(checked);
}
