//! Tests of opening models by their names and through the registry of formats, and of listing
//! variables.

use std::fs;
use std::num::NonZeroUsize;

use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{Format, OpenOptions, Registry};
use proto_splitter_paddle::proto::framework::var_type::Type;
use proto_splitter_paddle::stream::{Layout, StreamKind, TensorSpec};
use proto_splitter_paddle::{
    MODEL, PROGRAM_DESC, PaddleFormat, PaddleModel, PaddleOpenOptions, PaddleVariable, Parameter,
    ParameterFile, ParameterWriter, ProgramKind, append, parameters, variables,
};

use crate::support::fixtures;

static FORMATS: Registry = Registry::new(&[&PaddleFormat]);

#[test]
fn a_model_is_found_by_any_of_its_names() {
    for (names, program, file) in [
        (
            [
                "infer_fc",
                "infer_fc/model",
                "infer_fc/model.pdmodel",
                "infer_fc/model.pdiparams",
            ],
            "model.pdmodel",
            "model.pdiparams",
        ),
        (
            [
                "v331_jit_pir",
                "v331_jit_pir/model",
                "v331_jit_pir/model.json",
                "v331_jit_pir/model.pdiparams",
            ],
            "model.json",
            "model.pdiparams",
        ),
        (
            [
                "jit_save",
                "jit_save/model.pdiparams.info",
                "jit_save/model.pdmodel",
                "jit_save/model.pdiparams",
            ],
            "model.pdmodel",
            "model.pdiparams",
        ),
        (
            [
                "vars_separate",
                "vars_separate/__model__",
                "vars_separate/",
                "vars_separate/__model__",
            ],
            "__model__",
            "fc_0.b_0",
        ),
    ] {
        for name in names {
            let model = PaddleModel::open(fixtures().join(name)).unwrap();
            assert!(model.program_path().unwrap().ends_with(program), "{name}");
            assert!(model.files()[0].path().ends_with(file), "{name}");
        }
    }
    let error = PaddleModel::open(fixtures().join("missing")).unwrap_err();
    assert!(error.to_string().contains("no such file"), "{error}");
    let error = PaddleModel::open(fixtures().join("combined_more")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[test]
fn of_several_programs_in_a_folder_one_has_to_be_named() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.pdmodel", "b.pdmodel"] {
        fs::copy(
            fixtures().join("vocab/program.pdmodel"),
            folder.path().join(name),
        )
        .unwrap();
    }
    let error = PaddleModel::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("several programs: name one of a.pdmodel, b.pdmodel"),
        "{error}"
    );
}

#[test]
fn every_variable_is_listed_with_kind_type_dims_and_place() {
    let model = PaddleModel::open(fixtures().join("jit_save")).unwrap();
    let program = fs::read(model.program_path().unwrap()).unwrap();
    assert!(model.variables().iter().any(|variable| variable.block == 2));
    let find = |name: &str| -> &PaddleVariable {
        model
            .variables()
            .iter()
            .find(|variable| variable.name == name)
            .unwrap()
    };
    let weight = find("embedding_0.w_0");
    assert_eq!(
        (weight.kind(), weight.dtype()),
        (Some(Type::LodTensor), Some(Type::Fp32))
    );
    assert_eq!(weight.dims.as_deref(), Some(&[11, 6][..]));
    assert!(weight.persistable && weight.is_parameter());
    let stored = weight.stored.as_ref().unwrap();
    assert!(stored.file.ends_with("model.pdiparams"));
    assert_eq!(weight.bytes(), Some(11 * 6 * 4));
    let (_, parameter) = model.parameter("embedding_0.w_0").unwrap();
    assert_eq!(stored.data, parameter.stream().data());
    let feed = find("feed");
    assert_eq!((feed.bytes(), &feed.stored), (None, &None));
    assert_eq!(feed.kind(), Some(Type::FeedMinibatch));
    assert!(feed.persistable && !feed.is_parameter());
    assert!(model.variables().iter().any(|variable| {
        variable
            .dims
            .as_deref()
            .is_some_and(|dims| dims.contains(&-1))
    }));
    for variable in model.variables() {
        let place = variable.place.start as usize..variable.place.end as usize;
        let bytes = &program[place];
        let name = variable.name.as_bytes();
        assert!(
            bytes.windows(name.len()).any(|window| window == name),
            "{}",
            variable.name
        );
    }
}

#[test]
fn kinds_of_the_documents_and_of_newer_versions_are_listed() {
    // The message `blocks { vars { name: "c" type { type: KIND } persistable: true } }`.
    let var = |kind: u8| [10, 2 + 9, 26, 7 + 2, 10, 1, b'c', 18, 2, 8, kind, 24, 1].to_vec();
    let of = |kind| variables(&var(kind)).unwrap().remove(0);
    assert_eq!(of(16).kind(), Some(Type::Channel));
    assert_eq!((of(77).kind(), of(77).kind_number), (None, 77));
    let error = parameters(&[of(16)]).unwrap_err().to_string();
    assert_eq!(
        error,
        "c: a persistable variable of type CHANNEL can't be stored in any known file at 0x4"
    );
    assert!(parameters(&[of(17)]).unwrap().is_empty());
}

#[test]
fn vocabularies_and_selected_rows_are_told_by_the_program() {
    let options = |folder: &str| {
        let folder = fixtures().join(folder);
        proto_splitter_paddle::PaddleOpenOptions::new().program(folder.join("program.pdmodel"))
    };
    let model = PaddleModel::open_with(
        fixtures().join("selected_rows/program.pdmodel"),
        &options("selected_rows"),
    )
    .unwrap();
    let (file, parameter) = model.parameter("sr").unwrap();
    assert_eq!(parameter.stream().kind(), StreamKind::SelectedRows);
    assert!(file.is_separate());
    assert_eq!(parameter.stream().rows(file.bytes()).unwrap(), [0, 4, 7]);
}

#[test]
fn without_a_program_a_stream_is_what_it_makes_sense_as() {
    for (file, expected) in [
        ("selected_rows/sr", StreamKind::SelectedRows),
        ("vocab/params", StreamKind::Vocabulary),
    ] {
        let found = ParameterFile::open(fixtures().join(file), None, None).unwrap();
        let kinds: Vec<_> = found
            .parameters()
            .iter()
            .map(|one| one.stream().kind())
            .collect();
        assert_eq!(kinds, [expected], "{file}");
        found.verify().unwrap();

        let folder = tempfile::tempdir().unwrap();
        let alone = folder.path().join("alone.pdiparams");
        fs::copy(fixtures().join(file), &alone).unwrap();
        let opened = FORMATS.open(&alone, &OpenOptions::new()).unwrap();
        let properties = opened.archive().unwrap().properties().unwrap();
        assert!(
            properties.contains(&("0".into(), expected.to_string())),
            "{properties:?}"
        );
    }
}

#[test]
fn tensors_are_appended_behind_vocabularies_and_selected_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sized");
    let scalar = TensorSpec::dense(Type::Int8, []);
    let rows = TensorSpec::selected_rows(Type::Int8, [2, 1], [1, 5], 9);
    let mut writer = ParameterWriter::create(&path, Layout::Sized, false).unwrap();
    writer.write_vocabulary([("word", 3)]).unwrap();
    writer.write(&rows, &mut &[1, 2][..]).unwrap();
    writer.finish().unwrap();

    assert_eq!(append(&path, &scalar, &mut &[7][..]).unwrap(), 2);

    let file = ParameterFile::open(&path, None, None).unwrap();
    let kinds: Vec<_> = file
        .parameters()
        .iter()
        .map(|one| one.stream().kind())
        .collect();
    let expected = [
        StreamKind::Vocabulary,
        StreamKind::SelectedRows,
        StreamKind::Dense,
    ];
    assert_eq!(kinds, expected);
    let last = file.parameters()[2].stream();
    assert_eq!(last.to_bytes(file.bytes()).unwrap(), [7].as_slice());
}

#[test]
fn a_program_in_json_lists_its_parameters_and_says_what_it_is() {
    let model = PaddleModel::open(fixtures().join("v331_static_pir")).unwrap();
    assert_eq!(model.program_kind(), Some(ProgramKind::Pir));
    assert!(model.variables().is_empty());
    let names: Vec<_> = model
        .parameters()
        .filter_map(|(_, parameter)| parameter.name())
        .collect();
    assert_eq!(names, ["fc_0.b_0", "fc_0.w_0", "fc_1.b_0", "fc_1.w_0"]);
}

#[test]
fn a_model_opens_as_a_message_with_its_parameters_as_an_archive() {
    for name in [
        "infer_fc",
        "infer_fc/model",
        "infer_fc/model.pdmodel",
        "infer_fc/model.pdiparams",
        "vars_separate/fc_0.w_0",
        "v331_jit_pir/model.json",
    ] {
        let path = fixtures().join(name);
        let opened = FORMATS.open(&path, &OpenOptions::new()).unwrap();
        assert_eq!(
            opened.format().map(|format| format.name()),
            Some("paddle"),
            "{name}"
        );
        assert_eq!(opened.descriptor().unwrap().full_name(), MODEL, "{name}");
        assert!(!opened.tensors().unwrap().is_empty(), "{name}");
    }
    let opened = FORMATS
        .open(fixtures().join("infer_fc"), &OpenOptions::new())
        .unwrap();
    let shown: Vec<_> = opened
        .tensors()
        .unwrap()
        .iter()
        .map(|info| format!("{info} {}", info.location))
        .collect();
    assert_eq!(shown[1], "fc_0.w_0 float32[8, 16] model.pdiparams at 114");
    let archive = opened.archive().unwrap();
    let verified = archive.verify(&Default::default()).unwrap();
    assert_eq!((verified.tensors, verified.bytes), (4, 848));
    assert_eq!(
        archive.entries().unwrap()[0].detail.as_deref(),
        Some("ProgramDesc")
    );
    assert_eq!(opened.files().len(), 2);
}

#[test]
fn a_program_without_its_parameters_is_a_program_desc() {
    for (name, wanted) in [
        ("static_save/model.pdmodel", None),
        ("infer_fc/model.pdmodel", Some(PROGRAM_DESC)),
    ] {
        let pool = PaddleFormat.descriptor_pool().unwrap();
        let options = OpenOptions::new()
            .descriptor(wanted.and_then(|wanted| pool.get_message_by_name(wanted)));
        let opened = FORMATS.open(fixtures().join(name), &options).unwrap();
        assert_eq!(
            opened.descriptor().unwrap().full_name(),
            PROGRAM_DESC,
            "{name}"
        );
    }
}

#[test]
fn a_program_with_any_of_its_parameters_is_not_opened_alone() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("__model__");
    for name in ["__model__", "fc_0.b_0", "fc_1.w_0"] {
        let from = fixtures().join("vars_separate").join(name);
        fs::copy(from, folder.path().join(name)).unwrap();
    }
    let pool = PaddleFormat.descriptor_pool().unwrap();
    for wanted in [None, pool.get_message_by_name(MODEL)] {
        let options = OpenOptions::new().descriptor(wanted);
        let error = FORMATS.open(&program, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let line = error.to_string();
        assert!(
            line.contains("parameter \"fc_0.w_0\" is in no file"),
            "{line}"
        );
    }
    assert_eq!(PaddleFormat.message_type(&program), Some(MODEL));
    for name in ["fc_0.b_0", "fc_1.w_0"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let opened = FORMATS.open(&program, &OpenOptions::new()).unwrap();
    assert_eq!(opened.descriptor().unwrap().full_name(), PROGRAM_DESC);
    assert_eq!(PaddleFormat.message_type(&program), Some(PROGRAM_DESC));
}

#[test]
fn all_parameters_are_read_at_once_to_fresh_memory_and_to_buffers() {
    for name in ["jit_save", "vars_separate", "v331_jit_pir", "selected_rows"] {
        let model = PaddleModel::open(fixtures().join(name)).unwrap();
        let one = |(file, parameter): (&ParameterFile, &Parameter)| {
            parameter.stream().to_bytes(file.bytes()).unwrap()
        };
        let wanted: Vec<_> = model.parameters().map(one).collect();
        assert!(!wanted.is_empty());
        for threads in [None, NonZeroUsize::new(1), NonZeroUsize::new(3)] {
            assert_eq!(model.read_all(threads).unwrap(), wanted, "{name}");
            let mut buffers: Vec<_> = wanted.iter().map(|data| vec![9; data.len()]).collect();
            let filled = buffers.iter_mut().map(|buffer| &mut buffer[..]);
            model.read_all_to(filled, threads).unwrap();
            assert_eq!(buffers, wanted, "{name}");
        }
    }
}

#[test]
fn buffers_that_are_not_those_of_the_parameters_are_refused_before_anything_is_read() {
    let model = PaddleModel::open(fixtures().join("infer_fc")).unwrap();
    let sizes: Vec<_> = model
        .parameters()
        .map(|(_, parameter)| parameter.stream().data().count())
        .collect();
    let with = |change: &dyn Fn(&mut Vec<usize>)| {
        let mut sizes = sizes.clone();
        change(&mut sizes);
        sizes
    };
    for (sizes, message) in [
        (
            with(&|sizes| sizes.push(0)),
            "more buffers than the 4 parameters",
        ),
        (
            with(&|sizes| sizes.truncate(1)),
            "1 buffers for 4 parameters",
        ),
        (
            with(&|sizes| sizes[1] -= 1),
            "fc_0.w_0: the buffer has 511 bytes, but the data has 512",
        ),
    ] {
        let mut buffers: Vec<_> = sizes.iter().map(|size| vec![9; *size]).collect();
        let filled = buffers.iter_mut().map(|buffer| &mut buffer[..]);
        let error = model.read_all_to(filled, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert_eq!(error.to_string(), message);
        assert!(buffers.concat().iter().all(|byte| *byte == 9));
    }
}

#[test]
fn a_file_that_changed_is_not_read_as_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pdiparams");
    fs::copy(fixtures().join("infer_fc/model.pdiparams"), &path).unwrap();
    let model = PaddleModel::open(&path).unwrap();
    fs::write(&path, b"another").unwrap();
    let error = model.read_all(None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
    assert!(error.to_string().contains("model.pdiparams"), "{error}");
}

#[test]
fn a_state_that_a_run_makes_anew_is_in_no_file_of_parameters() {
    for (name, cell) in [
        ("lstm", "lstm_cell_0"),
        ("gru", "gru_cell_0"),
        ("simplernn", "simple_rnn_cell_0"),
    ] {
        let model = PaddleModel::open(fixtures().join("v331_rnn_pir").join(name)).unwrap();
        model.verify().unwrap();
        let names = model.parameters().map(|(_, parameter)| parameter.name());
        let names: Vec<_> = names.flatten().collect();
        let wanted = ["b_0", "b_1", "w_0", "w_1"].map(|end| format!("{cell}.{end}"));
        assert_eq!(names, wanted, "{name}");
    }
}

#[test]
fn a_folder_of_parameters_alone_goes_with_a_program_that_is_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let [program, weights] = ["program", "weights"].map(|name| folder.path().join(name));
    fs::create_dir(&weights).unwrap();
    for name in ["fc_0.b_0", "fc_0.w_0", "fc_1.b_0", "fc_1.w_0"] {
        fs::copy(
            fixtures().join("vars_separate").join(name),
            weights.join(name),
        )
        .unwrap();
    }
    fs::copy(fixtures().join("vars_separate/__model__"), &program).unwrap();
    let options = PaddleOpenOptions::new().program(&program);
    let model = PaddleModel::open_with(&weights, &options).unwrap();
    assert_eq!(model.files().len(), 4);
    assert_eq!(model.files()[0].path(), weights.join("fc_0.b_0"));
    model.verify().unwrap();
    fs::remove_file(weights.join("fc_1.b_0")).unwrap();
    let error = PaddleModel::open_with(&weights, &options).unwrap_err();
    assert!(
        error.to_string().contains("\"fc_1.b_0\" is in no file"),
        "{error}"
    );
    // As with a program in the same folder, a file with all parameters takes precedence over
    // separate files.
    let options = PaddleOpenOptions::new().program(fixtures().join("infer_fc/model.pdmodel"));
    let model = PaddleModel::open_with(fixtures().join("infer_fc_noclip"), &options).unwrap();
    assert_eq!(model.files().len(), 1);
}
