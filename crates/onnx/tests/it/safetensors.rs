//! Tests for models in safetensors files, and for models with such files next to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use proto_splitter_core::atomic::MadeFrom;
use proto_splitter_core::formats::{ConvertOptions, Format, OpenOptions, Registry};
use proto_splitter_core::split::{Source, SplitExt, SplitOptions};
use proto_splitter_core::{ErrorKind, MessageReader};
use proto_splitter_onnx::external::{DataFormat, EmbeddedPlan, ExternalOptions, Form};
use proto_splitter_onnx::proto::{GraphProto, ModelProto, TensorProto};
use proto_splitter_onnx::{OnnxFormat, OnnxOptions, OnnxSource, OnnxSplitter};
use safetensors::SafeTensors;

use crate::support::{
    FLOAT, STRING, branch, bytes_of, everywhere, external, model, noise, of_initializers, open,
    raw, whole, write,
};

static FORMATS: Registry = Registry::new(&[&OnnxFormat]);

/// Returns a tensor with separate floats.
fn typed(name: &str, values: &[f32]) -> TensorProto {
    TensorProto {
        dims: vec![i64::try_from(values.len()).unwrap()],
        data_type: Some(FLOAT),
        name: Some(name.into()),
        float_data: values.to_vec(),
        ..Default::default()
    }
}

/// Returns a tensor of this type and shape.
fn of_type(name: &str, number: i32, dims: &[i64], bytes: usize) -> TensorProto {
    TensorProto {
        dims: dims.to_vec(),
        data_type: Some(number),
        ..raw(name, noise(7, bytes))
    }
}

fn embed(model: &ModelProto, target: &Path) -> proto_splitter_core::Result<usize> {
    let bytes = model.encode_to_vec();
    let size = bytes.len() as u64;
    let model = MessageReader::new(Arc::new(bytes), size);
    let plan = EmbeddedPlan::new(model, target, &ExternalOptions::new())?;
    plan.write(&MadeFrom::Nothing)?;
    Ok(plan.tensor_count())
}

fn extract(path: &Path) -> proto_splitter_core::Result<OnnxSource> {
    OnnxSource::open_embedded(path, &OnnxOptions::new())
}

#[test]
fn a_model_in_a_safetensors_file_is_read_back_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let mut model = everywhere(|number| raw(&format!("t{number}"), noise(number, 40)));
    let graph = model.graph.as_mut().unwrap();
    for (number, dims, bytes) in [
        (1, &[2, 3][..], 24), // float32
        (11, &[3], 24),       // double
        (10, &[3], 6),        // float16
        (9, &[5], 5),         // bool
        (7, &[], 8),          // int64, a scalar
        (22, &[3, 3], 5),     // int4: nine elements in five bytes
        (23, &[3], 2),        // float4
        (18, &[4], 4),        // float8, which safetensors doesn't have
        (15, &[2], 32),       // complex128, which is never moved out
        (1, &[0, 4], 0),
    ] {
        let name = format!("type {number} of {dims:?}");
        graph.initializer.push(of_type(&name, number, dims, bytes));
    }
    graph.name = Some("g \"quoted\" \u{e9} \u{1f600}".into());
    let tensors = embed(&model, &path).unwrap();
    // Ten initializers of the graph are moved out, and one of each of its two subgraphs.
    assert_eq!(tensors, 1 + 9 + 2);
    let read = extract(&path).unwrap();
    assert_eq!(bytes_of(&read), model.encode_to_vec());
    assert_eq!(read.external_tensors(), tensors);

    // The format's own library reads the tensors.
    let bytes = fs::read(&path).unwrap();
    let listed = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(listed.len(), tensors);
    assert_eq!(listed.tensor("t0").unwrap().data(), noise(0, 40));
    let shapes = ["type 1 of [2, 3]", "type 22 of [3, 3]", "type 23 of [3]"]
        .map(|name| listed.tensor(name).unwrap().shape().to_vec());
    assert_eq!(shapes, [vec![2, 3], vec![5], vec![4]]);
}

#[test]
fn elements_one_by_one_become_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    embed(&of_initializers(vec![typed("w", &[1.5, -2.0])]), &path).unwrap();
    let read = ModelProto::decode(&bytes_of(&extract(&path).unwrap())[..]).unwrap();
    let expected: Vec<u8> = [1.5_f32, -2.0]
        .iter()
        .flat_map(|one| one.to_le_bytes())
        .collect();
    let w = &read.graph.unwrap().initializer[0];
    assert_eq!(w.raw_data.as_deref(), Some(&expected[..]));
    assert!(w.float_data.is_empty());
}

#[test]
fn names_that_two_initializers_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let model = of_initializers(vec![raw("w", [1]), raw("w", [2])]);
    let error = embed(&model, &path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidMessage);
    assert!(
        error
            .to_string()
            .contains("two initializers are called \"w\"")
    );
    assert!(!path.exists());
}

#[test]
fn an_initializer_with_the_name_of_the_metadata_stays_in_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let model = of_initializers(vec![raw("__metadata__", [1]), raw("w", [2])]);
    assert_eq!(embed(&model, &path).unwrap(), 1);
    assert_eq!(bytes_of(&extract(&path).unwrap()), model.encode_to_vec());
}

#[test]
fn the_name_of_an_initializer_in_the_file_is_refused_for_one_that_stays_in_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let moved = of_type("c", FLOAT, &[8], 32);
    let empty = TensorProto {
        raw_data: None,
        ..of_type("c", FLOAT, &[0], 0)
    };
    let strings = TensorProto {
        raw_data: None,
        string_data: vec![noise(4, 32).into()],
        ..of_type("c", STRING, &[1], 0)
    };
    let complex = of_type("c", 15, &[2], 32);
    for stays in [empty, strings, complex] {
        let graph = |tensor: &TensorProto| GraphProto {
            initializer: vec![tensor.clone()],
            ..Default::default()
        };
        let branches = [&moved, &stays].map(|tensor| branch("if", graph(tensor)));
        for node in [branches.to_vec(), branches.into_iter().rev().collect()] {
            let model = model(GraphProto {
                node,
                ..Default::default()
            });
            let error = embed(&model, &path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidMessage);
            let text = error.to_string();
            assert!(text.contains("two initializers are called \"c\""), "{text}");
            assert!(!path.exists());
        }
    }
}

#[test]
fn the_model_in_a_header_is_one_input_to_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let model = of_initializers(vec![raw("a", noise(1, 300)), raw("b", noise(2, 30))]);
    embed(&model, &path).unwrap();
    let opened = FORMATS.open(&path, &OpenOptions::new()).unwrap();
    assert_eq!(opened.files(), std::slice::from_ref(&path));
    assert!(extract(&path).unwrap().files().eq([path.as_path()]));
    let properties = opened.archive().unwrap().properties().unwrap();
    assert!(
        properties
            .iter()
            .all(|(name, _)| !name.starts_with("external")),
        "{properties:?}"
    );
    assert_eq!(opened.format().map(|format| format.name()), Some("onnx"));
    assert_eq!(opened.tensor("b").unwrap().to_vec().unwrap(), noise(2, 30));
    // The model can be written in every other form, and in its own form.
    let form = OnnxFormat.form_of(&opened).unwrap();
    assert_eq!(form.name, "onnx-safetensors");
    for form in OnnxFormat.targets() {
        let target = folder.path().join(format!("{}.onnx", form.name));
        OnnxFormat
            .convert(&opened, form, &target, &ConvertOptions::new())
            .unwrap();
        let read = FORMATS.open(&target, &OpenOptions::new());
        if form.name == "onnx-safetensors" {
            // `read` isn't used, since the extension `.onnx` implies another format.
            assert_eq!(bytes_of(&extract(&target).unwrap()), model.encode_to_vec());
        } else {
            assert_eq!(
                read.unwrap().tensor("a").unwrap().to_vec().unwrap(),
                noise(1, 300)
            );
            assert_eq!(whole(&target), model);
        }
    }
    // The output must not replace the input.
    let options = ConvertOptions::new().force(true);
    assert!(OnnxFormat.convert(&opened, form, &path, &options).is_err());
}

#[test]
fn a_model_in_chunks_becomes_one_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let model = of_initializers(
        (0..9)
            .map(|at| raw(&at.to_string(), noise(at, 3000)))
            .collect(),
    );
    let source = Source::from_bytes(
        model.encode_to_vec(),
        proto_splitter_onnx::model_descriptor(),
    );
    let options = SplitOptions::new()
        .max_chunk_size(5000)
        .value_chunk_size(Some(1000));
    OnnxSplitter
        .write_with(source, folder.path().join("m"), &options)
        .unwrap();
    let opened = FORMATS
        .open(folder.path().join("m.cpb"), &OpenOptions::new())
        .unwrap();
    let form = OnnxFormat
        .targets()
        .iter()
        .find(|form| form.name == "onnx-safetensors")
        .unwrap();
    let path = folder.path().join("m.safetensors");
    OnnxFormat
        .convert(&opened, form, &path, &ConvertOptions::new())
        .unwrap();
    assert_eq!(bytes_of(&extract(&path).unwrap()), model.encode_to_vec());
}

/// Writes a safetensors file with this header, followed by `bytes` bytes, and returns its path.
fn file(folder: &Path, header: &str, bytes: usize) -> PathBuf {
    let mut all = (header.len() as u64).to_le_bytes().to_vec();
    all.extend_from_slice(header.as_bytes());
    all.extend(noise(3, bytes));
    let path = folder.join("f.safetensors");
    fs::write(&path, all).unwrap();
    path
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let model = |tensor: &str| {
        let model = format!(r#"{{"graph": {{"initializer": [{tensor}]}}}}"#);
        serde_json::to_string(&model).unwrap()
    };
    let w = r#"{"dims": ["2"], "data_type": 1, "name": "w"}"#;
    let of = |model: &str, end: usize| {
        format!(
            r#"{{"__metadata__":{{"onnx":{model}}},"w":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{end}]}}}}"#,
            end / 4
        )
    };
    let outside = r#"{"dims": ["2"], "data_type": 1, "name": "v", "data_location": "EXTERNAL"}"#;
    for (header, bytes, expected) in [
        (of(&model(w), 8), 8, None),
        (of(&model(w), 8), 7, Some("but its header requires")),
        (
            of(&model(w), 12),
            12,
            Some("tensor \"w\": 12 bytes in the file, but its type and shape require 8 bytes"),
        ),
        (
            of(&model(outside), 8),
            8,
            Some("tensor \"v\": its data is not in the file"),
        ),
        (
            of(r#""{\"no_field\": 1}""#, 8),
            8,
            Some("the model in the header is damaged"),
        ),
        (
            of(r#""{} {}""#, 8),
            8,
            Some("the model in the header is damaged"),
        ),
        (
            r#"{"__metadata__":{"onnx":"{}"},"w":"#.into(),
            0,
            Some("the header is damaged"),
        ),
        (
            of(r#""""#, 8).replace("onnx", "other"),
            8,
            Some("has no ONNX model in its header"),
        ),
    ] {
        let path = file(folder.path(), &header, bytes);
        let opened = extract(&path);
        match (opened, expected) {
            (Ok(_), None) => {}
            (Err(error), Some(expected)) => {
                let text = error.to_string();
                assert!(
                    text.contains(expected) && text.contains("f.safetensors"),
                    "{text}"
                );
            }
            (opened, expected) => panic!("{opened:?} {expected:?}"),
        }
    }
    // Lengths of headers that extend past the end of the file, or that readers don't accept.
    for len in [1 << 40, 99_000_000_u64, u64::MAX] {
        let path = folder.path().join("long.safetensors");
        fs::write(&path, [&len.to_le_bytes()[..], b"{"].concat()).unwrap();
        assert_eq!(
            extract(&path).unwrap_err().kind(),
            ErrorKind::InvalidMessage
        );
    }
}

#[test]
fn shards_have_headers_and_an_index_and_the_model_refers_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let tensors = (0..5).map(|at| of_type(&format!("w{at}"), 1, &[500], 2000));
    let model = of_initializers(tensors.collect());
    let path = write(folder.path(), &model);
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("m.onnx");
    let options = ExternalOptions::new()
        .data_format(DataFormat::Safetensors)
        .shard_size(Some(4500))
        .force(true);
    let written = open(&path)
        .unwrap()
        .write(&target, Form::External, &options)
        .unwrap();
    let names = [
        "m-00001-of-00003.safetensors",
        "m-00002-of-00003.safetensors",
        "m-00003-of-00003.safetensors",
        "m.safetensors.index.json",
    ];
    assert_eq!(written.data_files, names.map(|name| out.path().join(name)));
    let sizes = written
        .data_files
        .iter()
        .map(|file| fs::metadata(file).unwrap().len());
    assert_eq!(written.data_size, sizes.sum::<u64>());
    assert_eq!(whole(&target), model);
    let index: serde_json::Value =
        serde_json::from_slice(&fs::read(out.path().join(names[3])).unwrap()).unwrap();
    assert_eq!(index["metadata"]["total_size"], 10_000);
    assert_eq!(index["weight_map"]["w3"], names[1]);
    for (name, tensors) in names.iter().zip([2, 2, 1]) {
        let bytes = fs::read(out.path().join(name)).unwrap();
        assert_eq!(SafeTensors::deserialize(&bytes).unwrap().len(), tensors);
    }
    // A tensor that is larger than a shard gets a separate file. The index is removed together with
    // its files.
    let small = options.clone().shard_size(Some(1000));
    let written = open(&path)
        .unwrap()
        .write(&target, Form::External, &small)
        .unwrap();
    assert_eq!(
        (written.data_files.len(), written.removed_files.len()),
        (6, 3)
    );
    let plain = ExternalOptions::new().force(true);
    let written = open(&path)
        .unwrap()
        .write(&target, Form::External, &plain)
        .unwrap();
    assert_eq!(written.removed_files.len(), 6);
    assert!(!out.path().join(names[3]).exists());
}

#[test]
fn no_safetensors_file_is_larger_with_its_header_than_the_maximum() {
    let folder = tempfile::tempdir().unwrap();
    let quoted = "\u{1}\"".repeat(40);
    let tensors = (0..5).map(|at| of_type(&format!("{quoted}{at}"), 1, &[500], 2000));
    let model = of_initializers(tensors.collect());
    let path = write(folder.path(), &model);
    let target = folder.path().join("m.onnx");
    let write = |most| {
        let options = ExternalOptions::new()
            .data_format(DataFormat::Safetensors)
            .max_file_size(Some(most))
            .force(true);
        open(&path)
            .unwrap()
            .write(&target, Form::External, &options)
    };
    // Two tensors fit in a file of 4096 bytes, but not with their names.
    for (most, files) in [(4096, 5), (5000, 3), (7500, 2), (20_000, 1)] {
        let written = write(most).unwrap();
        let data = written.data_files.iter();
        let data = data.filter(|file| file.extension().unwrap() == "safetensors");
        let sizes: Vec<u64> = data.map(|file| fs::metadata(file).unwrap().len()).collect();
        assert_eq!(sizes.len(), files, "{most}: {sizes:?}");
        assert!(sizes.iter().all(|&size| size <= most), "{most}: {sizes:?}");
        assert_eq!(whole(&target), model);
    }
    // One tensor fits in 2000 bytes, but not with the header.
    let error = write(2000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let line = error.to_string();
    assert!(
        line.starts_with("m-00001-of-00005.safetensors: 2"),
        "{line}"
    );
}

#[test]
fn a_tensor_without_bytes_is_moved_to_a_safetensors_file_even_if_it_is_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out.onnx");
    let options = ExternalOptions::new()
        .data_format(DataFormat::Safetensors)
        .min_size(0)
        .force(true);
    for others in [vec![], vec![raw("w", noise(1, 2000))]] {
        let model = of_initializers([vec![raw("roi", [])], others].concat());
        let path = write(folder.path(), &model);
        let written = open(&path)
            .unwrap()
            .write(&target, Form::External, &options)
            .unwrap();
        assert_eq!(written.data_files, [folder.path().join("out.safetensors")]);
        assert_eq!(whole(&target), model);
    }
}

#[test]
fn tensors_whose_name_is_taken_get_numbers_in_a_safetensors_file() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["w", "w", "w#2", "w", "__metadata__"];
    let model = of_initializers(
        names
            .iter()
            .zip(1..)
            .map(|(name, at)| raw(name, noise(at, 2000)))
            .collect(),
    );
    let path = write(folder.path(), &model);
    let target = folder.path().join("out.onnx");
    let options = ExternalOptions::new().data_format(DataFormat::Safetensors);
    open(&path)
        .unwrap()
        .write(&target, Form::External, &options)
        .unwrap();
    assert_eq!(whole(&target), model);
    let bytes = fs::read(folder.path().join("out.safetensors")).unwrap();
    let listed = SafeTensors::deserialize(&bytes).unwrap();
    let mut names = listed.names();
    names.sort_unstable();
    assert_eq!(names, ["__metadata__#2", "w", "w#2", "w#3", "w#4"]);
}

#[test]
fn a_model_with_data_in_another_file_is_not_embedded() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("data"), noise(1, 5000)).unwrap();
    let tensor = external("t", 5000, &[("location", "data")]);
    let model = write(folder.path(), &of_initializers(vec![tensor]));
    let target = folder.path().join("m.safetensors");
    let write = |keep| {
        let model = OnnxSource::open(&model, &OnnxOptions::new().keep_external(keep)).unwrap();
        model.write(&target, Form::Embedded, &ExternalOptions::new())
    };
    let error = write(true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{error}");
    let line = error.to_string();
    assert!(line.contains("its data is in another file"), "{line}");
    assert!(!target.exists());
    write(false).unwrap();
    assert_eq!(
        bytes_of(&extract(&target).unwrap()),
        bytes_of(&open(&model).unwrap())
    );
}
