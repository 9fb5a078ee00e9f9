//! ONNX through the interface shared by all formats.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{Checks, ConvertOptions, OpenOptions, Registry};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::split::{ChunkCompression, Source, SplitExt, SplitOptions};
use proto_splitter_onnx::proto::{ModelProto, TensorProto, descriptor_pool};
use proto_splitter_onnx::{OnnxFormat, OnnxSplitter, TENSOR};
use record_file::ReadAt;

use crate::support::{everywhere, external, noise, of_initializers, raw, write};

static FORMATS: Registry = Registry::new(&[&OnnxFormat]);

#[test]
fn tensors_are_listed_and_read_by_name_wherever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w"), b"0123456789").unwrap();
    let mut model = everywhere(|number| raw(&format!("t{number}"), noise(number, 8)));
    let graph = model.graph.as_mut().unwrap();
    graph
        .initializer
        .push(external("out", 4, &[("location", "w"), ("offset", "3")]));
    graph.initializer.push(raw("t0", [1]));
    let path = write(folder.path(), &model);
    let opened = FORMATS.open(&path, &OpenOptions::new()).unwrap();
    assert_eq!(opened.files(), [path.clone(), folder.path().join("w")]);
    let tensors = opened.tensors().unwrap();
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "x",
            "if/then_branch/c",
            "if/then_branch/t2",
            "many.list[0]",
            "many.list[1]",
            "many/graphs[0]/c",
            "many/graphs[0]/t6",
            "many.sparse",
            "many.sparse.indices",
            "t0",
            "out",
            // The second tensor with the same name is named after its path.
            "graph.initializer[2]",
            "sparse",
            ".indices",
            "training_info[0].initialization/t10",
            "training_info[0].algorithm/t",
            "d::F/f",
            "d::F/b/then_branch/c",
            "d::F/b/then_branch/t13",
            "d::F/default",
        ]
    );
    assert_eq!(opened.tensor("out").unwrap().to_vec().unwrap(), b"3456");
    assert_eq!(opened.tensor("x").unwrap().to_vec().unwrap(), noise(1, 8));
    assert_eq!(
        opened
            .tensor("graph.initializer[2]")
            .unwrap()
            .to_vec()
            .unwrap(),
        [1]
    );
    let out = tensors.iter().find(|tensor| tensor.name == "out").unwrap();
    assert_eq!(out.to_string(), "out uint8[4]");
    assert_eq!(out.location.to_string(), "w at 3");
    let error = opened.tensor("none").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPath);

    let archive = opened.archive().unwrap();
    let error = archive.verify(&Progress::none()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("another initializer is called \"t0\""),
        "{error}"
    );
    let properties = archive.properties().unwrap();
    let get = |name: &str| {
        properties
            .iter()
            .find(|(known, _)| known == name)
            .unwrap()
            .1
            .as_str()
    };
    assert_eq!((get("IR version"), get("producer")), ("10", "tests"));
    assert_eq!((get("external tensors"), get("external files")), ("1", "1"));
}

#[test]
fn each_listed_tensor_is_read_even_if_its_path_is_the_name_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let tensors = vec![raw("graph.initializer[1]", [1, 2]), raw("", [3, 4, 5])];
    let path = write(folder.path(), &of_initializers(tensors));
    let opened = FORMATS.open(&path, &OpenOptions::new()).unwrap();
    let archive = opened.archive().unwrap();
    let read = |info| archive.read(info).unwrap().to_vec().unwrap();
    let listed = archive.tensors().unwrap();
    assert_eq!(
        (read(&listed[0]), read(&listed[1])),
        (vec![1, 2], vec![3, 4, 5])
    );
    let bytes = fs::read(&path).unwrap();
    for (info, expected) in listed.iter().zip([&[1, 2][..], &[3, 4, 5]]) {
        let (_, range) = archive.tensor_in_file(info).unwrap();
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        assert_eq!(&bytes[range], expected);
    }
}

#[test]
fn a_sound_model_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        &of_initializers(vec![raw("a", [1, 2]), raw("b", [3])]),
    );
    let opened = FORMATS.open(&path, &OpenOptions::new()).unwrap();
    let verified = opened.archive().unwrap().verify(&Progress::none()).unwrap();
    assert_eq!((verified.tensors, verified.bytes), (2, 3));
    assert_eq!(verified.checks, Checks::Structure);
}

#[test]
fn a_model_whose_tensors_claim_more_than_2_to_the_64_bytes_is_verified_up_to_their_data() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w"), b"0123").unwrap();
    let mut huge = external("t", 1 << 62, &[("location", "w")]);
    huge.dims.push(2);
    let path = write(
        folder.path(),
        &of_initializers(vec![huge.clone(), huge.clone(), huge]),
    );
    let options = OpenOptions::new().setting("keep-external", "true");
    let opened = FORMATS.open(&path, &options).unwrap();
    let verified = opened.archive().unwrap().verify(&Progress::none());
    assert_eq!(verified.unwrap_err().kind(), ErrorKind::InvalidMessage);
}

#[test]
fn a_model_converts_to_each_target_and_settings_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        &of_initializers(vec![raw("a", noise(1, 5000))]),
    );
    let opened = FORMATS.open(&path, &OpenOptions::new()).unwrap();
    let format = opened.format().unwrap();
    for (target, files) in [("auto", 1), ("onnx", 1), ("external", 2)] {
        let target = *format
            .targets()
            .iter()
            .find(|known| known.name == target)
            .unwrap();
        let output = folder.path().join(format!("{}.onnx", target.name));
        let converted = format
            .convert(&opened, &target, &output, &ConvertOptions::new())
            .unwrap();
        assert_eq!(converted.files.len(), files, "{}", target.name);
        let sizes = converted
            .files
            .iter()
            .map(|file| fs::metadata(file).unwrap().len());
        assert_eq!(converted.bytes, sizes.sum::<u64>());
        let again = FORMATS.open(&output, &OpenOptions::new()).unwrap();
        assert_eq!(again.tensor("a").unwrap().to_vec().unwrap(), noise(1, 5000));

        for (name, value) in [("alignment", "x"), ("nonsense", "1")] {
            let options = ConvertOptions::new().force(true).setting(name, value);
            let error = format
                .convert(&opened, &target, &output, &options)
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
        }
        let options = ConvertOptions::new().force(true);
        let error = format
            .convert(&opened, &target, &path, &options)
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("refusing to overwrite the input"),
            "{error}"
        );
    }
}

/// Returns a model with equal, typed, small and large tensors, and the paths of its `.onnx` and
/// `.cpb` files.
fn in_chunks(folder: &Path, compression: &str) -> (ModelProto, PathBuf, PathBuf) {
    let mut typed = raw("typed", []);
    typed.raw_data = None;
    typed.dims = vec![3000];
    typed.int32_data = (0..3000).map(|at| at % 200).collect();
    let mut model = everywhere(|number| raw(&number.to_string(), noise(number / 2, 3000)));
    let graph = model.graph.as_mut().unwrap();
    graph.initializer.extend([
        raw("a", noise(1, 50_000)),
        raw("b", noise(2, 50_000)),
        raw("zeros", vec![0; 50_000]),
        raw("a again", noise(1, 50_000)),
        typed,
    ]);
    let path = write(folder, &model);
    let source = Source::open(&path, proto_splitter_onnx::model_descriptor()).unwrap();
    let options = SplitOptions::new()
        .max_chunk_size(30_000)
        .value_chunk_size(Some(2500))
        .compression(compression.parse::<ChunkCompression>().unwrap());
    let chunks = OnnxSplitter.write_with(&source, folder.join("chunks"), &options);
    (model, path, chunks.unwrap().path)
}

#[test]
fn a_model_in_chunks_converts_to_the_same_files_as_in_one_piece() {
    for compression in ["none", "zstd:3"] {
        let folder = tempfile::tempdir().unwrap();
        let (_, path, chunks) = in_chunks(folder.path(), compression);
        let made: Vec<Vec<(String, Vec<u8>)>> = [&path, &chunks]
            .into_iter()
            .map(|input| {
                let opened = FORMATS.open(input, &OpenOptions::new()).unwrap();
                let format = opened.format().unwrap();
                let mut files = Vec::new();
                for target in format.targets() {
                    let out = tempfile::tempdir().unwrap();
                    let output = out.path().join("out.onnx");
                    let options = ConvertOptions::new();
                    let done = format.convert(&opened, target, &output, &options).unwrap();
                    // No other file is left in the folder.
                    assert_eq!(fs::read_dir(out.path()).unwrap().count(), done.files.len());
                    let named = |file: &PathBuf| (target.name.to_owned(), fs::read(file).unwrap());
                    files.extend(done.files.iter().map(named));
                }
                files
            })
            .collect();
        // Two forms write one file, two write a pair, and one writes a file with the model in its
        // header.
        assert_eq!(made[0].len(), 7);
        assert!(made[0] == made[1], "{compression}");
    }
}

#[test]
fn one_file_made_of_any_input_takes_the_data_of_the_model_that_it_replaces_away() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path, chunks) = in_chunks(folder.path(), "none");
    for input in [&path, &chunks] {
        let opened = FORMATS.open(input, &OpenOptions::new()).unwrap();
        for form in ["auto", "onnx"] {
            let out = tempfile::tempdir().unwrap();
            let convert = |form: &str| {
                let format = opened.format().unwrap();
                let target = format.targets().iter().find(|one| one.name == form);
                let options = ConvertOptions::new().force(true);
                let output = out.path().join("out.onnx");
                format.convert(&opened, target.unwrap(), &output, &options)
            };
            assert_eq!(convert("external").unwrap().notes, [""; 0]);
            let data = out.path().join("out.onnx.data");
            let note = format!("removed {}: data of the old model", data.display());
            assert_eq!(convert(form).unwrap().notes, [note], "{form}");
            assert!(!data.exists(), "{form}");
        }
    }
}

#[test]
fn a_damaged_chunk_leaves_no_pair() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, chunks) = in_chunks(folder.path(), "none");
    let mut bytes = fs::read(&chunks).unwrap();
    let b = noise(2, 50_000);
    // An offset in the middle of a tensor that is a chunk.
    let at = bytes
        .windows(100)
        .position(|part| part == &b[20_000..20_100])
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&chunks, bytes).unwrap();
    let opened = FORMATS.open(&chunks, &OpenOptions::new()).unwrap();
    let format = opened.format().unwrap();
    let out = tempfile::tempdir().unwrap();
    for target in format.targets() {
        let output = out.path().join("out.onnx");
        let options = ConvertOptions::new();
        let error = format
            .convert(&opened, target, &output, &options)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Record, "{}: {error}", target.name);
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
    }
}

#[test]
fn the_rule_names_fields_that_hold_what_it_says() {
    let tensor = descriptor_pool()
        .get_message_by_name(TENSOR.message)
        .unwrap();
    let name = |number| tensor.get_field(number).unwrap().name().to_owned();
    assert_eq!(
        (name(TENSOR.dtype), name(TENSOR.content)),
        ("data_type".into(), "raw_data".into())
    );
    assert_eq!(name(TENSOR.elsewhere.unwrap()), "data_location");
    let types = descriptor_pool()
        .get_enum_by_name("onnx.TensorProto.DataType")
        .unwrap();
    for element in TENSOR.elements {
        let number = i32::try_from(element.number).unwrap();
        assert!(types.get_value(number).is_some(), "{number}");
        assert!(name(element.field).ends_with("_data"));
    }
    assert_eq!(types.values().len(), TENSOR.elements.len() + 1);
}

/// A source that counts its reads and the bytes read.
struct Counting {
    bytes: Vec<u8>,
    reads: Arc<AtomicU64>,
    read: Arc<AtomicU64>,
}

impl ReadAt for Counting {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.bytes.read_at(offset, buf)?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    fn size(&self) -> std::io::Result<u64> {
        self.bytes.size()
    }
}

/// Reads each of `count` tensors by name from a file with more than `least` chunks. Returns the
/// number of reads and the number of bytes read.
fn work_of_reading(count: u32, least: usize, tensor: impl Fn(u32) -> TensorProto) -> (u64, u64) {
    let model = of_initializers((0..count).map(tensor).collect::<Vec<_>>());
    let options = SplitOptions::new()
        .max_chunk_size(50_000)
        .value_chunk_size(Some(200));
    let mut bytes = Vec::new();
    let written = OnnxSplitter.write_to_with(Source::from(&model), &mut bytes, &options);
    let chunks = written.unwrap().chunks.len();
    assert!(chunks > least, "{chunks} chunks");
    let (reads, read) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let source = Counting {
        bytes,
        reads: Arc::clone(&reads),
        read: Arc::clone(&read),
    };
    let opened = FORMATS.open_reader(Arc::new(source), &OpenOptions::new());
    let opened = opened.unwrap();
    for number in 0..count {
        let reader = opened.tensor(&format!("t{number}")).unwrap();
        let elements = reader.to_vec().unwrap();
        assert_eq!(elements, noise(number, 300), "t{number}");
    }
    (reads.load(Ordering::Relaxed), read.load(Ordering::Relaxed))
}

#[test]
fn twice_as_many_tensors_in_chunks_of_their_own_take_twice_the_reads() {
    let in_floats = |number: u32| {
        let floats = noise(number, 300);
        let floats = floats
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        TensorProto {
            dims: vec![75],
            data_type: Some(1),
            name: Some(format!("t{number}")),
            float_data: floats.collect(),
            ..Default::default()
        }
    };
    let in_bytes = |number: u32| raw(&format!("t{number}"), noise(number, 300));
    // Large values of `raw_data` get separate chunks. The elements of `float_data` stay in their
    // tensors, which are in slices of the list of initializers.
    type Make<'a> = &'a dyn Fn(u32) -> TensorProto;
    let tables: [(&str, usize, Make<'_>); 2] =
        [("raw_data", 300, &in_bytes), ("float_data", 1, &in_floats)];
    for (field, least, tensor) in tables {
        let (reads, bytes) = work_of_reading(300, least, tensor);
        let (more_reads, more_bytes) = work_of_reading(600, 2 * least, tensor);
        let most = |one: u64| one * 5 / 2;
        assert!(
            more_reads <= most(reads),
            "{field}: {reads}, {more_reads} reads"
        );
        assert!(
            more_bytes <= most(bytes),
            "{field}: {bytes}, {more_bytes} bytes"
        );
    }
}

#[test]
fn a_model_says_what_it_takes_and_gives_in_one_piece_and_in_chunks() {
    use prost::Message;
    use proto_splitter_onnx::proto::tensor_shape_proto::{Dimension, dimension};
    use proto_splitter_onnx::proto::{TensorShapeProto, TypeProto, ValueInfoProto, type_proto};

    let dim = |value| Dimension {
        denotation: None,
        value,
    };
    let shape = TensorShapeProto {
        dim: vec![
            dim(Some(dimension::Value::DimParam("N".into()))),
            dim(Some(dimension::Value::DimValue(3))),
            dim(None),
        ],
    };
    let tensor = TypeProto {
        value: Some(type_proto::Value::TensorType(type_proto::Tensor {
            elem_type: Some(10),
            shape: Some(shape),
        })),
        ..Default::default()
    };
    let list = TypeProto {
        value: Some(type_proto::Value::SequenceType(Box::new(
            type_proto::Sequence {
                elem_type: Some(Box::new(tensor.clone())),
            },
        ))),
        ..Default::default()
    };
    let value = |name: &str, of: &TypeProto| ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(of.clone()),
        ..Default::default()
    };
    let mut model = of_initializers(vec![raw("w", noise(1, 5000))]);
    let graph = model.graph.as_mut().unwrap();
    // Before version 4 an initializer also had to be an input.
    graph.input = vec![value("x", &tensor), value("w", &tensor)];
    graph.output = (0..101).map(|at| value(&format!("y{at}"), &list)).collect();

    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &model);
    let chunked = OnnxSplitter
        .write_with(
            &model,
            folder.path().join("model"),
            &SplitOptions::new().max_chunk_size(2000),
        )
        .unwrap();
    for path in [&path, &chunked.path] {
        let opened = FORMATS.open(path, &OpenOptions::new()).unwrap();
        let said = opened.properties().unwrap();
        let all = |name: &str| -> Vec<&str> {
            let named = said.iter().filter(|(one, _)| one == name);
            named.map(|(_, value)| value.as_str()).collect()
        };
        assert_eq!(all("IR version"), ["10"]);
        assert_eq!(all("producer"), ["tests"]);
        assert_eq!(all("input"), ["x float16[N, 3, ?]"]);
        let outputs = all("output");
        assert_eq!(outputs.len(), 101);
        assert_eq!(outputs[0], "y0 sequence(float16[N, 3, ?])");
        assert_eq!(outputs[100], "and 1 more");
        assert_eq!(all("tensors"), ["1"]);
        assert_eq!(all("parameters"), ["5000"]);
    }
    assert_eq!(
        model.encoded_len() as u64,
        fs::metadata(&path).unwrap().len()
    );
}

#[test]
fn the_place_of_raw_data_in_a_file_is_told_unless_a_checksum_covers_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w"), b"0123456789").unwrap();
    let with = |entries: &[(&str, &str)]| {
        let inside = raw("inside", noise(1, 500));
        let model = of_initializers(vec![raw("empty", []), inside, external("out", 4, entries)]);
        let path = write(folder.path(), &model);
        FORMATS.open(&path, &OpenOptions::new()).unwrap()
    };
    let opened = with(&[("location", "w"), ("offset", "3")]);
    let place = |opened: &proto_splitter_core::formats::Opened, name: &str| {
        let info = opened.find_tensor(name).unwrap().unwrap();
        let (path, range) = opened.tensor_in_file(&info)?;
        Some((path.to_owned(), range))
    };
    assert_eq!(place(&opened, "out"), Some((folder.path().join("w"), 3..7)));
    assert_eq!(place(&opened, "empty"), None);
    let (path, range) = place(&opened, "inside").unwrap();
    let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
    assert!(fs::read(path).unwrap()[range] == noise(1, 500));

    // The checksum is compared when the data is read. Since mapping doesn't read the data, a tensor
    // with a checksum has no location.
    let sha1 = "87acec17cd9dcd20a716cc2cf67417b71c8a7016";
    let opened = with(&[("location", "w"), ("offset", "3"), ("checksum", sha1)]);
    assert_eq!(place(&opened, "out"), None);
}
