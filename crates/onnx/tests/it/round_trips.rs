//! Round trips from one piece to a pair and back, through every form, which must restore every
//! byte.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use prost::Message;
use proto_splitter_core::merge::Merger;
use proto_splitter_core::split::{Source, SplitExt, SplitOptions};
use proto_splitter_onnx::OnnxSplitter;
use proto_splitter_onnx::external::{ExternalOptions, Form};
use proto_splitter_onnx::proto::{ModelProto, TensorProto};

use crate::support::{FLOAT, bytes_of, everywhere, noise, open, raw, write};

/// Converts a model in one piece to a pair, one piece, chunks, and a pair again.
fn round(folder: &Path, model: &ModelProto, options: &ExternalOptions) {
    let at = |name: &str| folder.join(name);
    let original = write(folder, model);
    let pair = at("pair.onnx");
    open(&original)
        .unwrap()
        .write(&pair, Form::External, options)
        .unwrap();
    let back = at("back.onnx");
    open(&pair)
        .unwrap()
        .write(&back, Form::OnePiece, options)
        .unwrap();
    assert_eq!(bytes_of(&open(&pair).unwrap()), fs::read(&back).unwrap());
    assert_eq!(fs::read(&original).unwrap(), fs::read(&back).unwrap());

    let source = Source::from(&open(&pair).unwrap());
    let split = SplitOptions::new().max_chunk_size(3000).force(true);
    let written = OnnxSplitter
        .write_with(&source, at("chunks"), &split)
        .unwrap();
    let mut merged = Vec::new();
    if written
        .path
        .extension()
        .is_some_and(|extension| extension == "cpb")
    {
        _ = Merger::new().merge_to(&written.path, &mut merged).unwrap()
    } else {
        merged = fs::read(&written.path).unwrap()
    }
    assert!(merged == fs::read(&original).unwrap());
    let again = at("again.onnx");
    fs::write(&again, merged).unwrap();
    let pair_again = at("pair2/pair.onnx");
    fs::create_dir_all(at("pair2")).unwrap();
    open(&again)
        .unwrap()
        .write(&pair_again, Form::External, options)
        .unwrap();
    assert_eq!(fs::read(&pair).unwrap(), fs::read(&pair_again).unwrap());
    if at("pair.onnx.data").exists() {
        let (a, b) = (at("pair.onnx.data"), at("pair2/pair.onnx.data"));
        assert!(fs::read(a).unwrap() == fs::read(b).unwrap());
    }
}

#[test]
fn tensors_in_every_place_survive_every_form() {
    for len in [900, 5000] {
        for everywhere_too in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let model = everywhere(|number| raw(&format!("t{number}"), noise(number, len)));
            let options = ExternalOptions::new()
                .everywhere(everywhere_too)
                .force(true);
            round(folder.path(), &model, &options);
        }
    }
}

#[test]
fn typed_data_is_the_same_after_it_became_raw_once() {
    let folder = tempfile::tempdir().unwrap();
    let values = |_| TensorProto {
        data_type: Some(FLOAT),
        dims: vec![500],
        name: Some("t".into()),
        float_data: (0..500u16).map(f32::from).collect(),
        raw_data: None,
        ..Default::default()
    };
    let model = crate::support::of_initializers(vec![values(0)]);
    let original = write(folder.path(), &model);
    let pair = folder.path().join("pair.onnx");
    let options = ExternalOptions::new().force(true);
    open(&original)
        .unwrap()
        .write(&pair, Form::External, &options)
        .unwrap();
    let one = ModelProto::decode(&bytes_of(&open(&pair).unwrap())[..]).unwrap();
    let tensor = &one.graph.as_ref().unwrap().initializer[0];
    assert!(tensor.float_data.is_empty());
    fs::remove_file(&original).unwrap();
    round(folder.path(), &one, &options);
}

fn tensor() -> impl Strategy<Value = TensorProto> {
    (any::<u32>(), 0..3000usize, "[a-z]{0,6}").prop_map(|(seed, len, name)| {
        // There are few seeds, so some tensors are equal.
        raw(&name, noise(seed % 3, len))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_model_survives_every_form(
        tensors in prop::collection::vec(tensor(), 16),
        everywhere_too in any::<bool>(),
        min_size in 1..2000u64,
        alignment in 0..12u32,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let model = everywhere(|number| tensors[number as usize].clone());
        let options = ExternalOptions::new()
            .everywhere(everywhere_too)
            .min_size(min_size)
            .alignment(1 << alignment)
            .force(true);
        round(folder.path(), &model, &options);
    }
}
