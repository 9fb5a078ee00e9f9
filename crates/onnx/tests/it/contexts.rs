//! Tests for compiled nodes (onnxruntime's `EPContext`) whose content is in the model or in a file
//! next to it.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_core::formats::{ConvertOptions, Format, OpenOptions, Registry};
use proto_splitter_core::split::{SplitExt, SplitOptions};
use proto_splitter_core::{ErrorKind, MessageReader, Result};
use proto_splitter_onnx::external::{ExternalOptions, Form};
use proto_splitter_onnx::proto::{AttributeProto, GraphProto, ModelProto, NodeProto};
use proto_splitter_onnx::{OnnxFormat, OnnxOptions, OnnxSource, OnnxSplitter};
use record_file::ReadAt;

use crate::support::{bytes_of, model, noise, open, raw, whole, write};

/// Folder of models that onnxruntime's OpenVINO provider wrote, with the content inside and in a
/// file.
const THEIRS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/data/onnx/ep_context"
);

static FORMATS: Registry = Registry::new(&[&OnnxFormat]);

fn number(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.into()),
        i: Some(value),
        r#type: Some(2),
        ..Default::default()
    }
}

fn text(name: &str, value: impl Into<Vec<u8>>) -> AttributeProto {
    AttributeProto {
        name: Some(name.into()),
        s: Some(value.into().into()),
        r#type: Some(3),
        ..Default::default()
    }
}

fn compiled(name: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        name: Some(name.into()),
        op_type: Some("EPContext".into()),
        domain: Some("com.microsoft".into()),
        attribute,
        ..Default::default()
    }
}

fn of_nodes(node: Vec<NodeProto>) -> ModelProto {
    model(GraphProto {
        name: Some("g".into()),
        node,
        ..Default::default()
    })
}

fn attributes(model: &ModelProto, node: usize) -> &[AttributeProto] {
    &model.graph.as_ref().unwrap().node[node].attribute
}

fn external(path: &Path, options: &ExternalOptions) -> (ModelProto, Vec<PathBuf>) {
    use prost::Message;
    let target = path.with_file_name("out.onnx");
    let written = open(path)
        .unwrap()
        .write(&target, Form::External, options)
        .unwrap();
    let model = ModelProto::decode(&fs::read(&target).unwrap()[..]).unwrap();
    (model, written.data_files)
}

#[test]
fn both_forms_that_onnxruntime_writes_become_each_other() {
    let embedded = Path::new(THEIRS).join("embedded.onnx");
    let theirs = Path::new(THEIRS).join("external.onnx");
    let source = open(&theirs).unwrap();
    assert_eq!((source.external_contexts(), source.files().len()), (1, 2));
    assert!(bytes_of(&source) == fs::read(&embedded).unwrap());

    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model.onnx");
    let source = open(&embedded).unwrap();
    let written = source
        .write(&target, Form::External, &ExternalOptions::new())
        .unwrap();
    assert_eq!((written.tensors, written.contexts), (0, 1));
    let content = folder.path().join("model_ctx.bin");
    assert_eq!(written.data_files, std::slice::from_ref(&content));
    let name = "external_OpenVINOExecutionProvider_OpenVINO-EP-subgraph_1_0.blob";
    let blob = fs::read(Path::new(THEIRS).join(name)).unwrap();
    assert!(fs::read(&content).unwrap() == blob);
    // The model is identical to onnxruntime's, except for the name of the content's file.
    use prost::Message;
    let mut expected = ModelProto::decode(&fs::read(&theirs).unwrap()[..]).unwrap();
    let ours = ModelProto::decode(&fs::read(&target).unwrap()[..]).unwrap();
    let graph = expected.graph.as_mut().unwrap();
    for attribute in &mut graph.node[0].attribute {
        if attribute.name() == "ep_cache_context" {
            attribute.s = Some("model_ctx.bin".into());
        }
    }
    assert_eq!(ours, expected);
    assert!(bytes_of(&open(&target).unwrap()) == fs::read(&embedded).unwrap());
}

#[test]
fn contents_leave_beside_tensors_and_equal_ones_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (noise(1, 3000), noise(2, 2000));
    let mut model = of_nodes(vec![
        compiled("a", vec![text("ep_cache_context", one.clone())]),
        compiled(
            "b",
            vec![
                number("embed_mode", 1),
                text("ep_cache_context", other.clone()),
            ],
        ),
        compiled(
            "c",
            vec![
                text("ep_cache_context", one.clone()),
                number("embed_mode", 1),
            ],
        ),
        compiled("small", vec![text("ep_cache_context", noise(3, 100))]),
        compiled(
            "second",
            vec![
                number("main_context", 0),
                text("ep_cache_context", noise(4, 5000)),
            ],
        ),
        NodeProto {
            domain: Some("elsewhere".into()),
            ..compiled("another", vec![text("ep_cache_context", noise(5, 5000))])
        },
    ]);
    let graph = model.graph.as_mut().unwrap();
    graph.initializer = vec![raw("w", noise(6, 4000))];
    let path = write(folder.path(), &model);
    let (written, files) = external(&path, &ExternalOptions::new());
    let names = [
        "out.onnx.data",
        "out_ctx-00001-of-00002.bin",
        "out_ctx-00002-of-00002.bin",
    ];
    assert_eq!(files, names.map(|name| folder.path().join(name)));
    assert!(fs::read(&files[1]).unwrap() == one);
    assert!(fs::read(&files[2]).unwrap() == other);
    assert_eq!(
        attributes(&written, 0),
        [text("ep_cache_context", names[1]), number("embed_mode", 0)]
    );
    assert_eq!(
        attributes(&written, 1),
        [number("embed_mode", 0), text("ep_cache_context", names[2])]
    );
    assert_eq!(
        attributes(&written, 2),
        [text("ep_cache_context", names[1]), number("embed_mode", 0)]
    );
    for node in 3..6 {
        assert_eq!(
            attributes(&written, node),
            attributes(&model, node),
            "{node}"
        );
    }
    // A node without a storage mode gets one.
    let graph = model.graph.as_mut().unwrap();
    graph.node[0].attribute.push(number("embed_mode", 1));
    let out = folder.path().join("out.onnx");
    assert_eq!(whole(&out), model);

    // Unused data files are removed together with the old model.
    let written = open(&path)
        .unwrap()
        .write(&out, Form::OnePiece, &ExternalOptions::new().force(true))
        .unwrap();
    assert_eq!(written.removed_files.len(), 3);
    assert!(files.iter().all(|file| !file.exists()));
}

#[test]
fn a_content_of_several_gibibytes_leaves_comes_back_and_is_cut() -> Result<()> {
    const SIZE: u64 = 3 << 30;
    let folder = tempfile::tempdir().unwrap();
    let node = compiled(
        "n",
        vec![
            number("embed_mode", 0),
            text("ep_cache_context", "sub/blob"),
        ],
    );
    let path = write(folder.path(), &of_nodes(vec![node]));
    fs::create_dir(folder.path().join("sub")).unwrap();
    let blob = fs::File::create(folder.path().join("sub/blob")).unwrap();
    // The file is a hole, which takes no space on the disk.
    blob.set_len(SIZE).unwrap();

    let source = open(&path)?;
    assert!(source.size() > SIZE && source.size() < SIZE + 200);
    let options = SplitOptions::new();
    let plan = OnnxSplitter.plan(source.source(), &options)?.to_string();
    assert!(plan.contains("graph.node[0].attribute[1].s"), "{plan}");
    let plan = proto_splitter_onnx::external::ExternalPlan::new(
        MessageReader::new(std::sync::Arc::clone(source.reader()), source.size()),
        folder.path().join("out.onnx"),
        &ExternalOptions::new(),
    )?;
    assert_eq!((plan.context_count(), plan.data_size()), (1, SIZE));
    assert!(plan.model_size() < 200);
    Ok(())
}

#[test]
fn a_file_that_is_missing_or_elsewhere_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let with = |location: &str| {
        let node = compiled(
            "n",
            vec![text("ep_cache_context", location), number("embed_mode", 0)],
        );
        write(folder.path(), &of_nodes(vec![node]))
    };
    let path = with("ctx.bin");
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("ctx.bin"), "{error}");
    assert!(error.to_string().contains("node \"n\""), "{error}");

    let looked_at = OnnxSource::open(&path, &OnnxOptions::new().allow_missing_files(true)).unwrap();
    assert_eq!(looked_at.outside_files().len(), 1);
    assert!(
        looked_at.warnings()[0].ends_with("the data of 1 compiled node is missing"),
        "{:?}",
        looked_at.warnings()
    );
    assert!(bytes_of(&looked_at) == fs::read(&path).unwrap());

    for location in ["../ctx.bin", "/etc/passwd"] {
        let error = open(&with(location)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{location}");
        assert!(error.to_string().contains("node \"n\""), "{error}");
    }
}

#[test]
fn every_form_is_written_of_a_model_whose_content_is_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let opened = FORMATS
        .open(Path::new(THEIRS).join("external.onnx"), &OpenOptions::new())
        .unwrap();
    let embedded = fs::read(Path::new(THEIRS).join("embedded.onnx")).unwrap();
    for target in OnnxFormat.targets() {
        let output = folder.path().join(format!("{}.onnx", target.name));
        let output = match target.name {
            "onnx-safetensors" => output.with_extension("safetensors"),
            _ => output,
        };
        OnnxFormat
            .convert(&opened, target, &output, &ConvertOptions::new())
            .unwrap();
        let again = FORMATS.open(&output, &OpenOptions::new()).unwrap();
        let (reader, size) = again.plain().unwrap();
        let mut bytes = vec![0; usize::try_from(size).unwrap()];
        reader.read_exact_at(0, &mut bytes).unwrap();
        assert!(bytes == embedded, "{}", target.name);
    }
}
