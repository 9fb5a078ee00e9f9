//! The choice of external tensors, their places, and the conversion of typed data to raw data.

use std::fs;
use std::path::Path;

use prost::Message;
use proto_splitter_core::{ErrorKind, MessageReader};
use proto_splitter_onnx::external::{ExternalOptions, Form};
use proto_splitter_onnx::proto::{GraphProto, ModelProto, TensorProto, ValueInfoProto};
use proto_splitter_onnx::raw_len;

use crate::support::{
    FLOAT, INT64, STRING, UINT8, bytes_of, everywhere, model, noise, of_initializers, open, raw,
    whole, write,
};

fn externalise(path: &std::path::Path, options: &ExternalOptions) -> ModelProto {
    let target = path.with_file_name("out.onnx");
    let written = open(path)
        .unwrap()
        .write(&target, Form::External, options)
        .unwrap();
    assert_eq!(written.model_size, fs::metadata(&target).unwrap().len());
    let sizes = written
        .data_files
        .iter()
        .map(|file| fs::metadata(file).unwrap().len());
    assert_eq!(written.data_size, sizes.sum::<u64>());
    ModelProto::decode(&fs::read(&target).unwrap()[..]).unwrap()
}

/// Returns the names of the external tensors in a written model.
fn outside(path: &std::path::Path) -> Vec<String> {
    use proto_splitter_onnx::{OnnxOptions, OnnxSource};
    let options = OnnxOptions::new().keep_external(true);
    let tensors = OnnxSource::open(path, &options).unwrap().tensors().unwrap();
    let outside = tensors.iter().filter(|tensor| tensor.is_external());
    outside.map(|tensor| tensor.name().to_owned()).collect()
}

#[test]
fn by_default_only_what_onnx_load_fills_in_again_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let model = everywhere(|number| raw(&format!("t{number}"), noise(number, 2000)));
    let path = write(folder.path(), &model);
    externalise(&path, &ExternalOptions::new());
    let written = folder.path().join("out.onnx");
    assert_eq!(
        outside(&written),
        [
            "x",
            "if/then_branch/c",
            "if/then_branch/t2",
            "many.list[0]",
            "many.list[1]",
            "many/graphs[0]/c",
            "many/graphs[0]/t6",
            "t0",
            "d::F/f",
        ]
    );
    assert_eq!(bytes_of(&open(&written).unwrap()), fs::read(&path).unwrap());

    externalise(&path, &ExternalOptions::new().everywhere(true).force(true));
    let outside = outside(&written);
    for name in [
        "many.sparse",
        "sparse",
        "training_info[0].initialization/t10",
        "training_info[0].algorithm/t",
        "d::F/b/then_branch/c",
        "d::F/b/then_branch/t13",
        "d::F/default",
    ] {
        assert!(outside.iter().any(|known| known == name), "{name}");
    }
    // The indices of a sparse tensor have one dimension, so they may be a shape, and stay in the
    // model.
    assert_eq!(outside.len(), 16);
    assert_eq!(whole(&written), model);
}

#[test]
fn small_tensors_shapes_and_strings_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut shape = raw("shape", noise(1, 4096));
    (shape.data_type, shape.dims) = (Some(INT64), vec![512]);
    let mut matrix = raw("matrix", noise(2, 4096));
    (matrix.data_type, matrix.dims) = (Some(INT64), vec![16, 32]);
    let mut many = raw("many", noise(3, 80_000));
    (many.data_type, many.dims) = (Some(INT64), vec![10_000]);
    let strings = TensorProto {
        data_type: Some(STRING),
        dims: vec![1],
        name: Some("strings".into()),
        string_data: vec![noise(4, 5000).into()],
        ..Default::default()
    };
    let path = write(
        folder.path(),
        &of_initializers(vec![
            raw("1023", noise(5, 1023)),
            raw("1024", noise(6, 1024)),
            shape,
            matrix,
            many,
            strings,
            raw("empty", []),
        ]),
    );
    externalise(&path, &ExternalOptions::new());
    assert_eq!(
        outside(&folder.path().join("out.onnx")),
        ["1024", "matrix", "many"]
    );

    let options = ExternalOptions::new().min_size(10).force(true);
    externalise(&path, &options);
    assert_eq!(
        outside(&folder.path().join("out.onnx")),
        ["1023", "1024", "matrix", "many"]
    );
    let error = open(&path)
        .unwrap()
        .write(
            &folder.path().join("new.onnx"),
            Form::External,
            &options.force(false),
        )
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
}

#[test]
fn large_tensors_are_aligned_and_equal_ones_share_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let large = noise(1, (1 << 20) + 1);
    let mut other = large.clone();
    other[500_000] ^= 1;
    let path = write(
        folder.path(),
        &of_initializers(vec![
            raw("small", noise(2, 1500)),
            raw("large", large.clone()),
            raw("same", large),
            raw("other", other),
            raw("behind", noise(3, 1100)),
        ]),
    );
    let written = externalise(&path, &ExternalOptions::new());
    let places: Vec<Vec<String>> = written
        .graph
        .unwrap()
        .initializer
        .into_iter()
        .map(|tensor| {
            assert_eq!(tensor.data_location, Some(1));
            let keys: Vec<&str> = tensor
                .external_data
                .iter()
                .map(|entry| entry.key())
                .collect();
            assert_eq!(keys, ["location", "offset", "length"]);
            let values = tensor
                .external_data
                .iter()
                .map(|entry| entry.value().to_owned());
            values.collect()
        })
        .collect();
    let place = |offset: &str, length: &str| {
        ["out.onnx.data", offset, length]
            .map(str::to_owned)
            .to_vec()
    };
    assert_eq!(
        places,
        [
            place("0", "1500"),
            place("65536", "1048577"),
            place("65536", "1048577"),
            place("1179648", "1048577"),
            place("2228225", "1100"),
        ]
    );
    assert_eq!(whole(&folder.path().join("out.onnx")), whole(&path));
}

/// Checks that `out.onnx` is the model at `path`, with its tensors in three files of these sizes in
/// bytes.
fn check_shards(path: &Path, sizes: [u64; 3]) {
    for (at, size) in (1..).zip(sizes) {
        let shard = path.with_file_name(format!("out-0000{at}-of-00003.onnx.data"));
        assert_eq!(fs::metadata(shard).unwrap().len(), size);
    }
    assert_eq!(whole(&path.with_file_name("out.onnx")), whole(path));
}

/// Checks that a tensor of 2,000 bytes in the model at `path` is refused if a file may have one byte
/// less.
fn check_too_large(path: &Path, options: ExternalOptions, tensor: &str) {
    let written = open(path).unwrap().write(
        &path.with_file_name("new.onnx"),
        Form::External,
        &options.max_file_size(Some(1999)),
    );
    let error = written.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert_eq!(
        error.to_string(),
        format!("tensor \"{tensor}\" has 2000 bytes, over the maximum file size of 1999")
    );
}

#[test]
fn shards_are_as_large_as_was_said_at_the_most() {
    let folder = tempfile::tempdir().unwrap();
    let tensors: Vec<_> = (0..5)
        .map(|n| raw(&n.to_string(), noise(n, 2000)))
        .collect();
    let path = write(folder.path(), &of_initializers(tensors));
    let options = ExternalOptions::new().max_file_size(Some(4096));
    externalise(&path, &options);
    check_shards(&path, [4000, 4000, 2000]);
    check_too_large(&path, options, "0");
}

#[test]
fn a_tensor_above_the_shard_size_gets_its_own_file_up_to_the_maximum_file_size() {
    let folder = tempfile::tempdir().unwrap();
    let tensors = [("a", 500), ("b", 2000), ("c", 400), ("d", 300)]
        .map(|(name, len)| raw(name, noise(7, len)));
    let path = write(folder.path(), &of_initializers(tensors.to_vec()));
    let options = ExternalOptions::new()
        .min_size(100)
        .shard_size(Some(1000))
        .max_file_size(Some(2000));
    externalise(&path, &options);
    check_shards(&path, [500, 2000, 700]);
    check_too_large(&path, options, "b");
}

/// Checks for each type that elements in the type's field become the expected raw data.
#[test]
fn typed_data_becomes_raw_data() {
    type Fill = fn(&mut TensorProto);
    let cases: &[(i32, i64, Fill, &[u8])] = &[
        (
            FLOAT,
            2,
            |t| t.float_data = vec![1.0, -2.0],
            b"\0\0\x80\x3f\0\0\0\xc0",
        ),
        (
            UINT8,
            3,
            |t| t.int32_data = vec![0, 128, 255],
            b"\0\x80\xff",
        ),
        (3, 2, |t| t.int32_data = vec![-1, 2], b"\xff\x02"),
        (4, 2, |t| t.int32_data = vec![1, 65535], b"\x01\0\xff\xff"),
        (5, 2, |t| t.int32_data = vec![-2, 3], b"\xfe\xff\x03\0"),
        (
            6,
            2,
            |t| t.int32_data = vec![-2, i32::MAX],
            b"\xfe\xff\xff\xff\xff\xff\xff\x7f",
        ),
        (
            INT64,
            1,
            |t| t.int64_data = vec![-2],
            b"\xfe\xff\xff\xff\xff\xff\xff\xff",
        ),
        (9, 2, |t| t.int32_data = vec![0, 1], b"\0\x01"),
        (
            10,
            2,
            |t| t.int32_data = vec![15872, 49152],
            b"\0\x3e\0\xc0",
        ),
        (
            11,
            1,
            |t| t.double_data = vec![1.0],
            b"\0\0\0\0\0\0\xf0\x3f",
        ),
        (
            12,
            1,
            |t| t.uint64_data = vec![0xfffe_fdfc],
            b"\xfc\xfd\xfe\xff",
        ),
        (
            13,
            1,
            |t| t.uint64_data = vec![u64::MAX],
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
        ),
        (
            14,
            1,
            |t| t.float_data = vec![1.0, 0.0],
            b"\0\0\x80\x3f\0\0\0\0",
        ),
        (
            15,
            1,
            |t| t.double_data = vec![1.0, 0.0],
            b"\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\0",
        ),
        (16, 1, |t| t.int32_data = vec![0x3f80], b"\x80\x3f"),
        (17, 2, |t| t.int32_data = vec![0x38, 0xb8], b"\x38\xb8"),
        (18, 2, |t| t.int32_data = vec![0x38, 0xb8], b"\x38\xb8"),
        (19, 2, |t| t.int32_data = vec![0x3c, 0xbc], b"\x3c\xbc"),
        (20, 2, |t| t.int32_data = vec![0x3c, 0xbc], b"\x3c\xbc"),
        (21, 3, |t| t.int32_data = vec![0x21, 0x03], b"\x21\x03"),
        (22, 3, |t| t.int32_data = vec![120, 1], b"\x78\x01"),
        (23, 3, |t| t.int32_data = vec![0x21, 0x03], b"\x21\x03"),
        (24, 2, |t| t.int32_data = vec![0x7f, 0xff], b"\x7f\xff"),
        (25, 5, |t| t.int32_data = vec![0b1110_0100, 1], b"\xe4\x01"),
        (26, 5, |t| t.int32_data = vec![0b1110_0100, 1], b"\xe4\x01"),
        // Three bytes hold four six-bit elements, the first of which is in the lowest bits.
        (
            27,
            5,
            |t| t.int32_data = vec![1, 2, 3, 4, 5],
            b"\x81\x30\x10\x05",
        ),
        (28, 4, |t| t.int32_data = vec![1, 2, 3, 4], b"\x81\x30\x10"),
    ];
    for &(data_type, elements, fill, raw) in cases {
        let mut tensor = TensorProto {
            data_type: Some(data_type),
            // There are enough elements to move the tensor out.
            dims: vec![elements],
            name: Some("t".into()),
            ..Default::default()
        };
        fill(&mut tensor);
        let known = proto_splitter_onnx::proto::tensor_proto::DataType::try_from(data_type);
        assert_eq!(
            raw_len(known.unwrap(), &[elements]),
            Some(raw.len() as u64),
            "{data_type}"
        );

        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), &of_initializers(vec![tensor.clone()]));
        let tensors = open(&path).unwrap().tensors().unwrap();
        let mut found = Vec::new();
        tensors
            .write_raw(tensors.find("t").unwrap(), &mut found)
            .unwrap();
        assert_eq!(found, raw, "{data_type}");
        assert_eq!(
            tensors.problems().unwrap(),
            Vec::<String>::new(),
            "{data_type}"
        );

        let options = ExternalOptions::new().min_size(1).force(true);
        externalise(&path, &options);
        // Tensors that may be shapes stay in the model.
        if ![6, INT64].contains(&data_type) {
            let tensor = &whole(&folder.path().join("out.onnx"))
                .graph
                .unwrap()
                .initializer[0];
            assert_eq!(tensor.raw_data.as_deref(), Some(raw), "{data_type}");
            assert_eq!(fs::read(folder.path().join("out.onnx.data")).unwrap(), raw);
        }

        // A missing element is detected before any file appears.
        tensor.dims = vec![elements + 9];
        let path = write(folder.path(), &of_initializers(vec![tensor]));
        let new = folder.path().join("new.onnx");
        if ![6, INT64].contains(&data_type) {
            let error = open(&path)
                .unwrap()
                .write(&new, Form::External, &options)
                .unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::InvalidMessage,
                "{data_type}: {error}"
            );
            assert!(
                error.to_string().starts_with("tensor \"t\": it has "),
                "{error}"
            );
            assert!(!new.exists() && !folder.path().join("new.onnx.data").exists());
        }
    }
}

#[test]
fn typed_data_that_is_not_packed_or_in_several_runs_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    // The dimension 5 and the type float, followed by one element, a run of two elements, one
    // element, an empty run, and one element.
    let mut tensor = b"\x08\x05\x10\x01".to_vec();
    let one = |value: f32| [&[0x25][..], &value.to_le_bytes()].concat();
    tensor.extend(one(1.0));
    tensor.extend([0x22, 8]);
    tensor.extend([2.0f32, 3.0].iter().flat_map(|value| value.to_le_bytes()));
    tensor.extend(one(4.0));
    tensor.extend([0x22, 0]);
    tensor.extend(b"\x42\x01t");
    tensor.extend(one(5.0));
    let mut bytes = vec![0x3a, u8::try_from(tensor.len() + 2).unwrap(), 0x2a];
    bytes.push(u8::try_from(tensor.len()).unwrap());
    bytes.extend(tensor);
    let path = folder.path().join("model.onnx");
    fs::write(&path, bytes).unwrap();
    let tensors = open(&path).unwrap().tensors().unwrap();
    let mut found = Vec::new();
    tensors
        .write_raw(tensors.find("t").unwrap(), &mut found)
        .unwrap();
    let expected: Vec<u8> = (1u8..=5).flat_map(|n| f32::from(n).to_le_bytes()).collect();
    assert_eq!(found, expected);
}

#[test]
fn both_files_appear_or_neither_and_nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        &of_initializers(vec![raw("t", noise(1, 5000))]),
    );
    let target = folder.path().join("out.onnx");
    let data = folder.path().join("out.onnx.data");
    let options = ExternalOptions::new();
    for there in [&target, &data] {
        fs::write(there, b"old").unwrap();
        let error = open(&path)
            .unwrap()
            .write(&target, Form::External, &options)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert_eq!(fs::read(there).unwrap(), b"old");
        fs::remove_file(there).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    fs::write(&data, b"old").unwrap();
    let forced = options.clone().force(true);
    open(&path)
        .unwrap()
        .write(&target, Form::External, &forced)
        .unwrap();
    assert_eq!(whole(&target), whole(&path));

    // The model's own files are never replaced, not even with force.
    for form in [Form::External, Form::OnePiece] {
        let error = open(&target)
            .unwrap()
            .write(&target, form, &forced)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
    assert_eq!(whole(&target), whole(&path));
}

#[test]
fn a_cancelled_write_leaves_nothing() {
    use proto_splitter_core::progress::{CancelToken, Progress};
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        &of_initializers(vec![raw("t", noise(1, 5000))]),
    );
    let token = CancelToken::new();
    token.cancel();
    let options = ExternalOptions::new().progress(Progress::none().cancelled_by(&token));
    for form in [Form::External, Form::OnePiece] {
        let target = folder.path().join("out.onnx");
        let error = open(&path)
            .unwrap()
            .write(&target, form, &options)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn names_that_readers_refuse_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        &of_initializers(vec![raw("t", noise(1, 5000))]),
    );
    for name in ["a..b.onnx", "a\\b.onnx"] {
        let target = folder.path().join(name);
        let source = open(&path).unwrap();
        let error = source
            .write(&target, Form::External, &ExternalOptions::new())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
}

#[test]
fn auto_is_one_file_while_readers_take_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(
        folder.path(),
        &of_initializers(vec![raw("t", noise(1, 5000))]),
    );
    let target = folder.path().join("out.onnx");
    let written = open(&path)
        .unwrap()
        .write(&target, Form::Auto, &ExternalOptions::new())
        .unwrap();
    assert!(written.data_files.is_empty());
    assert_eq!(fs::read(&target).unwrap(), fs::read(&path).unwrap());
}

#[test]
fn the_largest_thing_that_is_left_is_named() {
    use proto_splitter_core::spans::SpansBuilder;
    use proto_splitter_core::wire::FieldNumber;
    use proto_splitter_onnx::external::ExternalPlan;
    use record_file::ReadAt;
    /// A source with 3 GiB of zeros.
    struct Zeros;
    impl ReadAt for Zeros {
        fn read_at(&self, _: u64, buf: &mut [u8]) -> std::io::Result<usize> {
            buf.fill(0);
            Ok(buf.len())
        }
        fn size(&self) -> std::io::Result<u64> {
            Ok(3 << 30)
        }
    }
    let mut builder = SpansBuilder::new();
    let zeros = builder.reader("zeros", std::sync::Arc::new(Zeros)).unwrap();
    let front = model(GraphProto {
        value_info: vec![ValueInfoProto {
            name: Some("v".into()),
            ..Default::default()
        }],
        ..Default::default()
    });
    builder.literal(&front.encode_to_vec()).unwrap();
    // The graph's field occurs a second time, with a 3 GiB string.
    builder.begin_field(FieldNumber(7)).unwrap();
    builder.begin_field(FieldNumber(10)).unwrap();
    builder.span(zeros, 0..3 << 30).unwrap();
    builder.end_field().unwrap();
    builder.end_field().unwrap();
    let spans = builder.finish().unwrap();
    let size = spans.total_size();
    let model = MessageReader::new(std::sync::Arc::new(spans), size);
    let plan = ExternalPlan::new(model, "m.onnx", &ExternalOptions::new());
    let error = plan.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncuttable);
    assert!(
        error
            .to_string()
            .contains("that readers accept; the largest: graph.doc_string 3.0 GiB"),
        "{error}"
    );
}
