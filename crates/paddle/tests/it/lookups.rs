//! Tests of finding parameters by name and by counter.

use std::fs;

use proto_splitter_core::formats::{Format, OpenOptions, Registry};
use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
use proto_splitter_paddle::proto::framework::var_type::Type;
use proto_splitter_paddle::stream::{Layout, TensorSpec, write_stream};
use proto_splitter_paddle::{PaddleFormat, PaddleModel, PaddleOpenOptions};
#[cfg(target_os = "linux")]
use proto_splitter_testkit::opens::Opens;

use crate::hostile::program;
use crate::support::fixtures;

static FORMATS: Registry = Registry::new(&[&PaddleFormat as &dyn Format]);

#[test]
fn a_name_and_a_counter_lead_to_the_same_parameter_in_one_file_and_in_several() {
    for name in ["infer_fc", "vars_separate"] {
        let model = PaddleModel::open(fixtures().join(name)).unwrap();
        let count = model.parameters().count();
        assert_eq!(count, 4, "{name}");
        for (counter, (file, parameter)) in model.parameters().enumerate() {
            let by_name = model.parameter(parameter.name().unwrap()).unwrap();
            let by_counter = model.parameter_at(counter).unwrap();
            for (found, found_parameter) in [by_name, by_counter] {
                assert_eq!((found.path(), found_parameter), (file.path(), parameter));
            }
        }
        assert!(model.parameter_at(count).is_none());
        assert!(model.parameter_at(usize::MAX).is_none());
        assert!(model.parameter("4").is_none());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn verifying_files_of_one_parameter_each_opens_each_at_most_twice() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..200).map(|at| format!("p{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    fs::write(folder.path().join("__model__"), program(&names)).unwrap();
    let two = TensorSpec::dense(Type::Fp32, [2]);
    for name in &names {
        let mut bytes = Vec::new();
        write_stream(&mut bytes, &two, Layout::Paddle, &mut &[1; 8][..]).unwrap();
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let model = PaddleModel::open(folder.path()).unwrap();
    let opens = Opens::of(folder.path());
    model.verify().unwrap();
    // Once to read the file, and once to check that it hasn't changed since.
    let counts = opens.counts();
    assert!(counts.len() >= names.len());
    assert!(counts.values().all(|&count| count <= 2), "{counts:?}");
}

#[test]
fn levels_of_detail_of_a_file_in_chunks_are_those_of_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let options = PaddleOpenOptions::new()
        .program(fixtures().join("combined_all_dtypes/program.pdmodel"))
        .parameters(fixtures().join("combined_all_dtypes/params"));
    let model = PaddleModel::open_with(fixtures(), &options).unwrap();
    let levels = model.parameters().map(|(file, parameter)| {
        let name = parameter.name().unwrap().to_owned();
        (name, parameter.stream().lod(file.bytes()).unwrap())
    });
    let wanted: Vec<(String, Vec<Vec<u64>>)> = levels.collect();
    let named = |of: &str| {
        wanted
            .iter()
            .find(|(name, _)| name == of)
            .unwrap()
            .1
            .clone()
    };
    assert_eq!(named("lod1"), [[0, 2, 5, 6]]);
    assert_eq!(named("lod2"), [&[0, 2, 3][..], &[0, 2, 4, 7]]);
    // With chunks of 16 bytes, a level of LoD is divided into several chunks.
    for size in [16, 64, 1 << 20] {
        let prefix = folder.path().join(size.to_string());
        let split = SplitOptions::new()
            .max_chunk_size(size)
            .embed_schema(true)
            .always_chunked(true);
        let written = SizeSplitter.write_with(model.source().unwrap(), prefix, &split);
        let opened = FORMATS
            .open(&written.unwrap().path, &OpenOptions::new())
            .unwrap();
        let tensors = opened.tensors().unwrap().into_iter();
        let found: Vec<_> = tensors
            .map(|tensor| (tensor.name.clone(), opened.lod(&tensor).unwrap()))
            .collect();
        assert_eq!(found, wanted, "{size}");
    }
}
