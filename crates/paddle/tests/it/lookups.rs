//! Tests of finding parameters by name and by counter.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use proto_splitter_core::formats::{Format, OpenOptions, Opened, Registry};
use proto_splitter_core::split::{SizeSplitter, SplitExt, SplitOptions};
use proto_splitter_paddle::proto::framework::var_type::Type;
use proto_splitter_paddle::stream::{Layout, TensorSpec, write_stream};
use proto_splitter_paddle::{PaddleFormat, PaddleModel, PaddleOpenOptions};

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

#[test]
fn the_time_to_verify_files_of_one_parameter_each_grows_with_their_number() {
    let [few, many] = [100, 1000].map(time_to_verify_files);
    // The number of files grows tenfold; if verifying one opened all, the time would grow 100-fold.
    assert!(many < few * 40, "{few:?} for 100, {many:?} for 1000");
}

/// Returns the shortest of several measurements of the time to verify a model with this many files
/// of one parameter each.
fn time_to_verify_files(count: usize) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..count).map(|at| format!("p{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    fs::write(folder.path().join("__model__"), program(&names)).unwrap();
    let two = TensorSpec::dense(Type::Fp32, [2]);
    for name in names {
        let mut bytes = Vec::new();
        write_stream(&mut bytes, &two, Layout::Paddle, &mut &[1; 8][..]).unwrap();
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let model = PaddleModel::open(folder.path()).unwrap();
    let time = |_| {
        let start = Instant::now();
        model.verify().unwrap();
        start.elapsed()
    };
    (0..3).map(time).min().unwrap()
}

/// Returns the shortest of several measurements of the time to find all parameters by counter in a
/// file without a program.
fn time_to_find_all(count: usize) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pdiparams");
    let mut bytes = Vec::new();
    let scalar = TensorSpec::dense(Type::Uint8, []);
    for _ in 0..count {
        write_stream(&mut bytes, &scalar, Layout::Paddle, &mut &[1][..]).unwrap();
    }
    fs::write(&path, bytes).unwrap();
    let opened: Opened = FORMATS.open(&path, &OpenOptions::new()).unwrap();
    let names: Vec<String> = (0..count).map(|counter| counter.to_string()).collect();
    let time = || {
        let start = Instant::now();
        for name in &names {
            let found = opened.find_tensor(name).unwrap().unwrap();
            black_box(opened.read_tensor(&found).unwrap());
        }
        start.elapsed()
    };
    (0..5).map(|_| time()).min().unwrap()
}

#[test]
fn the_time_to_find_all_parameters_grows_with_their_number() {
    let (few, many) = (time_to_find_all(1_000), time_to_find_all(32_000));
    // 32 times as many parameters should take about 32 times as long. If each lookup searched all
    // parameters from the first, they would take 1,024 times as long.
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    assert!(ratio < 200.0, "{few:?} for 1,000, and {many:?} for 32,000");
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
