//! Tests of conversions of models to one message, back to files, and between layouts.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, io, thread};

use prost::Message;
use prost::encoding::encode_varint;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{ConvertOptions, Format, OpenOptions, Registry};
use proto_splitter_core::merge::{Merger, ReadOptions};
use proto_splitter_core::progress::{CancelToken, Progress};
use proto_splitter_core::split::{Source, SplitExt, SplitOptions};
use proto_splitter_core::view::MessageView;
use proto_splitter_core::view::size_tree::{TreeOptions, measure};
use proto_splitter_paddle::proto::descriptor_pool;
use proto_splitter_paddle::proto::framework::ProgramDesc;
use proto_splitter_paddle::proto::framework::var_type::Type;
use proto_splitter_paddle::proto::model::{Model, Parameter, ParameterFile, Tensor};
use proto_splitter_paddle::stream::{Layout, StreamKind, TensorSpec};
use proto_splitter_paddle::{
    Arrangement, MODEL, ModelSplitter, NAMES, PROGRAM_DESC, PaddleFormat, PaddleModel,
    PaddleOpenOptions, PaddleWriteOptions, ParameterWriter, ProgramDescSplitter, ProgramKind,
    convert, write_model,
};

use crate::support::{files, fixtures};

static FORMATS: Registry = Registry::new(&[&PaddleFormat as &dyn Format]);

/// Returns complete models: those that Paddle wrote, and one that consists of a vocabulary.
fn models(folder: &Path) -> Vec<PaddleModel> {
    let of = [
        "infer_fc",
        "infer_fc_legacy",
        "infer_fc_noclip",
        "jit_save",
        "vars_separate",
        "v331_jit_oldir",
        "v331_jit_pir",
        "v331_rnn_pir/lstm",
        "v331_static_oldir",
        "v331_static_pir",
        "selected_rows",
    ];
    let open = |name: &&str| PaddleModel::open(fixtures().join(name)).unwrap();
    let mut models: Vec<_> = of.iter().map(open).collect();
    let all = fixtures().join("combined_all_dtypes");
    let options = PaddleOpenOptions::new()
        .program(all.join("program.pdmodel"))
        .parameters(all.join("params"));
    models.push(PaddleModel::open_with(&all, &options).unwrap());
    // Keeps only the vocabulary, since Paddle's program also has a tensor whose value wasn't saved.
    let words = fs::read(fixtures().join("vocab/program.pdmodel")).unwrap();
    let mut words = ProgramDesc::decode(&words[..]).unwrap();
    words.blocks[0].vars.retain(|var| var.name == "vocab");
    fs::write(folder.join("words.pdmodel"), words.encode_to_vec()).unwrap();
    fs::copy(
        fixtures().join("vocab/params"),
        folder.join("words.pdiparams"),
    )
    .unwrap();
    models.push(PaddleModel::open(folder.join("words")).unwrap());
    models.push(all_types_in_separate_files(&folder.join("separate")));
    models
}

/// Returns a model with the parameters of `combined_all_dtypes` in separate files, as Paddle writes
/// them. One of the files is in a subfolder.
fn all_types_in_separate_files(folder: &Path) -> PaddleModel {
    for (name, bytes) in files(&fixtures().join("vars_all_dtypes")) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let program = fixtures().join("combined_all_dtypes/program.pdmodel");
    fs::copy(program, folder.join("__model__")).unwrap();
    PaddleModel::open(folder).unwrap()
}

/// Calls `check` for all models concurrently, since it spends most of its time on the disk.
fn for_every_model(check: impl Fn(&PaddleModel) + Sync) {
    let folder = tempfile::tempdir().unwrap();
    let models = models(folder.path());
    std::thread::scope(|scope| {
        for model in &models {
            scope.spawn(|| check(model));
        }
    });
}

/// Returns the name and content of each of a model's files.
fn contents(model: &PaddleModel) -> Vec<(String, Vec<u8>)> {
    let program = model.program_path().unwrap();
    let folder = program.parent().unwrap();
    let mut paths = vec![program.to_owned()];
    paths.extend(model.files().iter().map(|file| file.path().to_owned()));
    let info = program.with_extension("pdiparams.info");
    paths.extend(Some(info).filter(|info| info.is_file()));
    let name = |path: &Path| {
        path.strip_prefix(folder)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    let mut all: Vec<_> = paths
        .iter()
        .map(|path| (name(path), fs::read(path).unwrap()))
        .collect();
    all.sort();
    all
}

fn written(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = files(folder).into_iter();
    files
        .map(|(path, bytes)| (path.to_str().unwrap().to_owned(), bytes))
        .collect()
}

#[test]
fn a_model_goes_to_one_file_and_back_byte_for_byte() {
    for_every_model(|model| {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("m");
        for size in [200, 1 << 30] {
            let options = SplitOptions::new().max_chunk_size(size).force(true);
            let path = ModelSplitter
                .write_with(model.source().unwrap(), &prefix, &options)
                .unwrap();
            assert!(path.byte_exact);
            let back = folder.path().join(format!("back{size}"));
            write_model(&path.path, &back, &PaddleWriteOptions::new()).unwrap();
            assert_eq!(
                written(&back),
                contents(model),
                "{:?} {size}",
                model.program_path()
            );
        }
    });
}

#[test]
fn a_model_goes_through_every_layout_and_back() {
    let arrangements = Layout::ALL
        .into_iter()
        .flat_map(|layout| [Arrangement::Combined(layout), Arrangement::Separate(layout)]);
    for_every_model(|model| {
        std::thread::scope(|scope| {
            for arrangement in arrangements.clone() {
                scope.spawn(move || there_and_back(model, arrangement));
            }
        });
    });
}

fn there_and_back(model: &PaddleModel, arrangement: Arrangement) {
    let (layout, separate) = match arrangement {
        Arrangement::Combined(layout) => (layout, false),
        Arrangement::Separate(layout) => (layout, true),
        other => panic!("{other:?}"),
    };
    let mut parameters = model.parameters();
    let is_dense = parameters.all(|(_, parameter)| parameter.stream().kind() == StreamKind::Dense);
    let folder = tempfile::tempdir().unwrap();
    let [there, back] = ["there", "back"].map(|name| folder.path().join(name));
    let converted = convert(
        model,
        &there,
        &PaddleWriteOptions::new().arrangement(arrangement),
    );
    let is_pir = model.program_kind() == Some(ProgramKind::Pir);
    let has_rows = model
        .parameters()
        .any(|(_, parameter)| parameter.stream().kind() == StreamKind::SelectedRows);
    let is_combined = has_rows && arrangement == Arrangement::Combined(Layout::Paddle);
    if is_pir && separate || !is_dense && layout == Layout::ModelFormat || is_combined {
        let error = converted.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "nothing is left");
        return;
    }
    converted.unwrap();
    let again = PaddleModel::open(&there).unwrap();
    again.verify().unwrap();
    for file in again.files() {
        assert_eq!((file.layout(), file.is_separate()), (layout, separate));
    }
    let original = if model.files()[0].is_separate() {
        Arrangement::Separate(Layout::Paddle)
    } else {
        Arrangement::Combined(Layout::Paddle)
    };
    convert(
        &again,
        &back,
        &PaddleWriteOptions::new().arrangement(original),
    )
    .unwrap();
    // Ignores companions, since only a file with all parameters has one.
    let bytes = |files: Vec<(String, Vec<u8>)>| -> Vec<Vec<u8>> {
        let files = files
            .into_iter()
            .filter(|(name, _)| !separate || !name.ends_with(".info"));
        let mut files: Vec<_> = files.map(|(_, bytes)| bytes).collect();
        files.sort();
        files
    };
    let wanted = bytes(contents(model));
    assert_eq!(
        bytes(written(&back)),
        wanted,
        "{arrangement:?} {:?}",
        model.program_path()
    );
}

#[test]
fn parameters_without_a_program_go_to_one_file_and_through_every_layout_and_back() {
    let mut paths: Vec<_> = files(&fixtures().join("combined_more"))
        .into_keys()
        .map(|name| fixtures().join("combined_more").join(name))
        .collect();
    assert_eq!(paths.len(), 8);
    for name in [
        "combined_all_dtypes/params",
        "combined_all_dtypes/params_op_order",
        "paddle_save/lodtensor_binary",
        "paddle_save/tensor_binary.pdtensor",
    ] {
        paths.push(fixtures().join(name));
    }
    for path in paths {
        let original = fs::read(&path).unwrap();
        let model = PaddleModel::open(&path).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str| {
            let files = written(&folder.path().join(name));
            assert_eq!(files.len(), 1, "{}", path.display());
            files[0].1.clone()
        };
        let options = SplitOptions::new().max_chunk_size(200);
        let one = ModelSplitter
            .write_with(model.source().unwrap(), folder.path().join("m"), &options)
            .unwrap();
        let back = folder.path().join("back");
        write_model(&one.path, back, &PaddleWriteOptions::new()).unwrap();
        assert_eq!(written("back"), original, "{}", path.display());
        for layout in Layout::ALL {
            let to = |layout, name: &str, model: &PaddleModel| {
                let options = PaddleWriteOptions::new().arrangement(Arrangement::Combined(layout));
                convert(model, folder.path().join(name), &options).unwrap()
            };
            let there = to(layout, &layout.to_string(), &model);
            let there = PaddleModel::open(&there.files[0]).unwrap();
            assert_eq!(there.files()[0].layout(), layout, "{}", path.display());
            let back = format!("{layout}-back");
            to(Layout::Paddle, &back, &there);
            assert_eq!(written(&back), original, "{} {layout}", path.display());
        }
    }
}

#[test]
fn every_program_goes_through_split_and_merge_byte_for_byte() {
    let all = files(&fixtures());
    let programs = all.iter().filter(|(path, _)| {
        path.extension().is_some_and(|end| end == "pdmodel") || path.ends_with("__model__")
    });
    let descriptor = descriptor_pool().get_message_by_name(PROGRAM_DESC).unwrap();
    let mut seen = 0;
    for (path, bytes) in programs {
        for size in [1 << 10, 10 << 10, 1 << 30] {
            let folder = tempfile::tempdir().unwrap();
            let prefix = folder.path().join("p");
            let source = Source::from_bytes(bytes.clone(), descriptor.clone());
            let options = SplitOptions::new().max_chunk_size(size);
            let written = ProgramDescSplitter
                .write_with(source, &prefix, &options)
                .unwrap();
            assert_eq!(
                written.is_split,
                bytes.len() as u64 > size,
                "{} {size}",
                path.display()
            );
            assert_eq!(
                Merger::new().merge_to_bytes(&prefix).unwrap(),
                bytes[..],
                "{} {size}",
                path.display()
            );
        }
        seen += 1;
    }
    assert_eq!(seen, 12);
}

#[test]
fn a_model_is_read_as_a_typed_message() {
    let model = PaddleModel::open(fixtures().join("jit_save")).unwrap();
    let spans = model.spans().unwrap();
    let view = MessageView::of_plain(&spans, ReadOptions::new()).unwrap();
    let message: Model = view.message(&"".parse().unwrap()).unwrap();
    assert_eq!(message.program_file(), "model.pdmodel");
    assert_eq!(message.program.unwrap().blocks.len(), 3);
    let parameters = &message.parameter_files[0].parameters;
    assert_eq!(parameters.len(), 11);
    assert_eq!(parameters[4].name(), "embedding_0.w_0");
    assert_eq!(parameters[4].tensor.as_ref().unwrap().dims, [11, 6]);
    assert_eq!(parameters[4].tensor.as_ref().unwrap().data().len(), 264);
    assert_eq!(message.companions[0].file(), "model.pdiparams.info");
}

#[test]
fn parts_are_named_in_a_tree() {
    let model = PaddleModel::open(fixtures().join("infer_fc")).unwrap();
    let spans = model.spans().unwrap();
    let options = ReadOptions::new().descriptor(descriptor_pool().get_message_by_name(MODEL));
    let view = MessageView::of_plain(&spans, options).unwrap();
    let tree = |path: &str| {
        measure(
            &view,
            &path.parse().unwrap(),
            &TreeOptions::new().names(&NAMES),
        )
        .unwrap()
    };
    let names = |path: &str| -> Vec<String> {
        let tree = tree(path);
        let fields = tree.root.children.iter();
        let members = fields.flat_map(|field| &field.members);
        members
            .map(|member| {
                format!(
                    "{}: {}",
                    member.name.name.as_deref().unwrap_or("?"),
                    member.name.detail.as_deref().unwrap_or("?")
                )
            })
            .collect()
    };
    let block = names("2.1[0]");
    assert!(
        block
            .iter()
            .any(|name| name == "fc_0.w_0: lod_tensor fp32[8, 16]"),
        "{block:?}"
    );
    assert!(
        block
            .iter()
            .any(|name| name.ends_with(": matmul_v2") || name.ends_with(": mul")),
        "{block:?}"
    );
    let parameters = names("4[0]");
    assert!(
        parameters.iter().any(|name| name == "fc_0.w_0: fp32"),
        "{parameters:?}"
    );
}

/// Returns a model whose only parameter file contains this parameter.
fn one(parameter: Parameter) -> Model {
    Model {
        parameter_files: vec![ParameterFile {
            file: Some("p.pdiparams".into()),
            parameters: vec![parameter],
            ..ParameterFile::default()
        }],
        ..Model::default()
    }
}

fn parameter(name: &str, dims: Vec<i64>, data: &[u8]) -> Parameter {
    Parameter {
        name: Some(name.into()),
        tensor: Some(Tensor {
            data_type: Some(20),
            dims,
            data: (!data.is_empty()).then(|| data.to_vec().into()),
        }),
        ..Parameter::default()
    }
}

fn write(message: &[u8], arrangement: Arrangement) -> Result<Vec<(String, Vec<u8>)>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.pb");
    fs::write(&path, message).unwrap();
    let to = folder.path().join("to");
    let options = PaddleWriteOptions::new().arrangement(arrangement);
    let result = write_model(&path, &to, &options).map_err(|error| error.to_string());
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(
        names,
        1 + usize::from(result.is_ok()),
        "complete or not at all"
    );
    result.map(|_| written(&to))
}

#[test]
fn a_message_by_others_becomes_files() {
    let files = write(
        &one(parameter("w", vec![2], &[1, 2])).encode_to_vec(),
        Arrangement::Original,
    )
    .unwrap();
    let stream = [&[0u8; 16][..], &[4, 0, 0, 0, 8, 20, 16, 2, 1, 2]].concat();
    assert_eq!(files, [("p.pdiparams".to_owned(), stream.clone())]);
    let files = write(
        &one(parameter("a/w", vec![2], &[1, 2])).encode_to_vec(),
        Arrangement::Separate(Layout::Paddle),
    )
    .unwrap();
    assert_eq!(files, [("a/w".to_owned(), stream)]);
    let empty = write(
        &one(parameter("w", vec![0], &[])).encode_to_vec(),
        Arrangement::Original,
    )
    .unwrap();
    assert_eq!(empty[0].1.len(), 24);
}

#[test]
fn messages_that_make_no_files_are_refused_and_leave_nothing() {
    use Arrangement::{Combined, Original, Separate};
    let good = one(parameter("w", vec![2], &[1, 2]));
    let bytes = good.encode_to_vec();
    let with = |change: &dyn Fn(&mut Model)| {
        let mut model = good.clone();
        change(&mut model);
        model.encode_to_vec()
    };
    let file =
        |name: &'static str| with(&move |model| model.parameter_files[0].file = Some(name.into()));
    let reordered = {
        let inner = good.parameter_files[0].parameters[0].encode_to_vec();
        let tensor = &inner[3..];
        let moved = [tensor, &inner[..3]].concat();
        let file = [&[10, 1, b'p', 34, moved.len() as u8][..], &moved].concat();
        [&[34, file.len() as u8][..], &file].concat()
    };
    let mut endless = Vec::new();
    for (fields, size) in [(&[34][..], 30), (&[34], 60), (&[16, 2, 58], 300)] {
        endless.extend(fields);
        encode_varint(u64::MAX - size, &mut endless);
    }
    let table: Vec<(&str, Vec<u8>, Arrangement, &str)> = vec![
        (
            "cut",
            bytes[..bytes.len() - 1].to_vec(),
            Original,
            "field 4 has 29 bytes, more than its message has left",
        ),
        (
            "data of another size",
            one(parameter("w", vec![3], &[1, 2])).encode_to_vec(),
            Original,
            "w: 2 bytes of data for a tensor of dims [3]",
        ),
        (
            "no data",
            one(parameter("w", vec![3], &[])).encode_to_vec(),
            Original,
            "w: 0 bytes of data",
        ),
        (
            "no tensor",
            one(Parameter {
                name: Some("w".into()),
                ..Parameter::default()
            })
            .encode_to_vec(),
            Original,
            "w: there is no tensor",
        ),
        (
            "a name outside",
            one(parameter("../w", vec![2], &[1, 2])).encode_to_vec(),
            Separate(Layout::Paddle),
            "would lead outside",
        ),
        (
            "a file outside",
            file("../p"),
            Original,
            "\"../p\" isn't a plain file name",
        ),
        (
            "a program outside",
            with(&|model| model.program_file = Some("/p".into())),
            Original,
            "\"/p\" isn't",
        ),
        (
            "no name",
            with(&|model| model.parameter_files[0].parameters[0].name = None),
            Separate(Layout::Paddle),
            "without a name",
        ),
        (
            "one name twice",
            with(&|model| {
                let again = model.parameter_files[0].parameters[0].clone();
                model.parameter_files[0].parameters.push(again);
            }),
            Separate(Layout::Paddle),
            "is used for two files",
        ),
        (
            "not in order",
            with(&|model| {
                let again = model.parameter_files[0].clone();
                model.parameter_files.push(again);
            }),
            Combined(Layout::Paddle),
            "order of their names",
        ),
        (
            "rows of a dense tensor",
            with(&|model| model.parameter_files[0].parameters[0].rows = vec![1]),
            Original,
            "a dense tensor has no rows",
        ),
        (
            "fields out of order",
            reordered,
            Original,
            "fields have to be in the order of their numbers",
        ),
        (
            "an unknown field",
            [&bytes[..], &[0x98, 6, 1]].concat(),
            Original,
            "field 99 of a Model isn't known",
        ),
        (
            "longer than around it",
            [34, 2, 34, 9].to_vec(),
            Original,
            "more than its message has left",
        ),
        (
            "a vocabulary that claims almost 2^64 bytes",
            endless,
            Combined(Layout::Paddle),
            "more than its message has left",
        ),
        ("not a tag", [255; 30].to_vec(), Original, "invalid tag"),
    ];
    for (what, bytes, arrangement, wanted) in table {
        let error = write(&bytes, arrangement).unwrap_err();
        assert!(error.contains(wanted), "{what}: {error}");
    }
}

#[test]
fn a_message_of_another_type_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let descriptor = descriptor_pool().get_message_by_name(PROGRAM_DESC).unwrap();
    let bytes = fs::read(fixtures().join("infer_fc/model.pdmodel")).unwrap();
    let options = SplitOptions::new().max_chunk_size(1 << 10);
    let written = ProgramDescSplitter
        .write_with(
            Source::from_bytes(bytes, descriptor),
            folder.path().join("p"),
            &options,
        )
        .unwrap();
    let error = write_model(
        &written.path,
        folder.path().join("to"),
        &PaddleWriteOptions::new(),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is a paddle.framework.proto.ProgramDesc"),
        "{error}"
    );
}

#[test]
fn a_folder_in_the_way_is_replaced_only_by_force() {
    let model = PaddleModel::open(fixtures().join("vars_separate")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    fs::create_dir(&to).unwrap();
    convert(&model, &to, &PaddleWriteOptions::new()).unwrap();
    fs::write(to.join("__model__"), b"old").unwrap();
    fs::write(to.join("other"), b"stays").unwrap();
    let error = convert(&model, &to, &PaddleWriteOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(to.join("__model__")).unwrap(), b"old");
    let written = convert(&model, &to, &PaddleWriteOptions::new().force(true)).unwrap();
    assert!(written.files[0].ends_with("__model__") && written.files.len() == 5);
    assert_ne!(fs::read(to.join("__model__")).unwrap(), b"old");
    assert_eq!(fs::read(to.join("other")).unwrap(), b"stays");
    let error = convert(
        &model,
        folder.path().join("no/to"),
        &PaddleWriteOptions::new(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoFolder);
}

#[test]
fn data_is_copied_by_as_many_threads_as_the_caller_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.pdiparams");
    let mut writer = ParameterWriter::create(&path, Layout::Paddle, false).unwrap();
    let spec = TensorSpec::dense(Type::Uint8, [2 << 20]);
    for _ in 0..16 {
        writer.write(&spec, &mut io::repeat(7)).unwrap();
    }
    writer.finish().unwrap();
    let opened = FORMATS.open(&path, &OpenOptions::new()).unwrap();
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let threads = Arc::clone(&seen);
    let progress = Progress::new(move |_, _| {
        threads.lock().unwrap().insert(thread::current().id());
        // Gives other threads the time to take part.
        thread::sleep(Duration::from_millis(10));
    });
    let form = PaddleFormat
        .targets()
        .iter()
        .find(|form| form.name == "files");
    let options = ConvertOptions::new()
        .threads(NonZeroUsize::MIN)
        .progress(progress);
    let to = folder.path().join("to");
    PaddleFormat
        .convert(&opened, form.unwrap(), &to, &options)
        .unwrap();
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn a_conversion_that_is_cancelled_leaves_nothing() {
    let model = PaddleModel::open(fixtures().join("infer_fc")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let token = CancelToken::new();
    token.cancel();
    let options = PaddleWriteOptions::new().progress(Progress::none().cancelled_by(&token));
    let error = convert(&model, folder.path().join("to"), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_changed_since_it_was_opened_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["model.pdmodel", "model.pdiparams"] {
        fs::copy(
            fixtures().join("infer_fc").join(name),
            folder.path().join(name),
        )
        .unwrap();
    }
    let model = PaddleModel::open(folder.path()).unwrap();
    let path = folder.path().join("model.pdiparams");
    let mut bytes = fs::read(&path).unwrap();
    bytes.push(0);
    fs::write(&path, bytes).unwrap();
    assert_eq!(model.spans().unwrap_err().kind(), ErrorKind::SourceChanged);
    assert_eq!(model.verify().unwrap_err().kind(), ErrorKind::SourceChanged);
}

#[test]
fn tied_weights_are_stored_once_and_come_back() {
    const SIZE: u64 = 64 << 10;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.pdiparams");
    // Returns pseudorandom bytes, which are incompressible.
    let noise = |seed: u32| -> Vec<u8> {
        let mut state = seed;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..SIZE).map(next).collect()
    };
    let (tied, other) = (noise(1), noise(2));
    let mut writer = ParameterWriter::create(&path, Layout::Paddle, false).unwrap();
    for (data, dims) in [
        (&tied, [SIZE, 1]),
        (&other, [256, SIZE / 256]),
        (&tied, [256, SIZE / 256]),
    ] {
        writer
            .write(&TensorSpec::dense(Type::Uint8, dims), &mut &data[..])
            .unwrap();
    }
    writer.finish().unwrap();
    let original = fs::read(&path).unwrap();
    let model = PaddleModel::open(&path).unwrap();
    let options = SplitOptions::new().max_chunk_size(1 << 10);
    let one = ModelSplitter
        .write_with(model.source().unwrap(), folder.path().join("m"), &options)
        .unwrap();
    let size = fs::metadata(&one.path).unwrap().len();
    assert!((2 * SIZE..2 * SIZE + SIZE / 4).contains(&size), "{size}");
    let back = folder.path().join("back");
    write_model(&one.path, &back, &PaddleWriteOptions::new()).unwrap();
    assert_eq!(fs::read(back.join("w.pdiparams")).unwrap(), original);
    let apart = PaddleWriteOptions::new().arrangement(Arrangement::Combined(Layout::Sized));
    write_model(&one.path, folder.path().join("sized"), &apart).unwrap();
    let sized = PaddleModel::open(folder.path().join("sized/w.pdiparams")).unwrap();
    assert_eq!(sized.read_all(None).unwrap(), [&tied[..], &other, &tied]);
}
