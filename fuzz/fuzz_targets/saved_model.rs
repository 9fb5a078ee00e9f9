//! Reads arbitrary bytes as a SavedModel, in binary or, if the first byte is odd, as text. Also
//! computes its fingerprint, and saves it in chunks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proto_splitter_saved_model::{SaveOptions, SavedModelDir};

/// Adds the beginnings of TensorFlow's test models, and a model as text, to the corpus.
fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("saved_model") else {
        return;
    };
    let root = proto_splitter_fuzz::root();
    let models = root.join("../tests/data/tensorflow");
    for name in ["lookup_strings", "keras_mlp", "functions_consts"] {
        let model = std::fs::read(models.join(name).join("saved_model.pb")).expect("a fixture");
        let start = &model[..model.len().min(4000)];
        std::fs::write(corpus.join(name), [&[0], start].concat()).expect("a seed");
    }
    let text =
        "\x01meta_graphs { graph_def { node { name: 'a' attr { key: 'f' value { s: 'x' } } } } }";
    std::fs::write(corpus.join("text"), text).expect("a seed");
}

fuzz_target!(
    init: plant(),
    |data: &[u8]| {
        let Some((how, model)) = data.split_first() else {
            return;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let name = if how % 2 == 0 { "saved_model.pb" } else { "saved_model.pbtxt" };
        std::fs::write(folder.path().join(name), model).expect("a file");
        let Ok(dir) = SavedModelDir::open(folder.path()) else {
            return;
        };
        for graph in dir.meta_graphs().into_iter().flatten() {
            let _ = (graph.assets(), graph.signatures());
        }
        let _ = dir.fingerprint();
        let to = tempfile::tempdir().expect("a folder");
        let _ = dir.save_as_chunked(to.path().join("chunked"), &SaveOptions::new());
    }
);
