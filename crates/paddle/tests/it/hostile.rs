//! Tests that truncated, contradictory and false files cause specific errors, which name the file,
//! the tensor and the offset.

use std::fs;
use std::path::Path;

use prost::Message;
use proto_splitter_core::ErrorKind;
use proto_splitter_paddle::proto::framework::var_type::{LoDTensorDesc, TensorDesc, Type};
use proto_splitter_paddle::proto::framework::{BlockDesc, ProgramDesc, VarDesc, VarType};
use proto_splitter_paddle::proto::model;
use proto_splitter_paddle::stream::{Layout, MAX_LOD_LEVELS, StreamKind, TensorSpec, write_stream};
use proto_splitter_paddle::{
    PaddleModel, PaddleOpenOptions, PaddleWriteOptions, ParameterFile, ParameterSpec, variables,
    write_model,
};

use crate::support::fixtures;

/// Returns a stream of type FP32 and shape [2] with these changes. Each change replaces the bytes
/// at an offset.
fn stream(changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let spec = TensorSpec::dense(Type::Fp32, [2]).lod([vec![0, 2]]);
    write_stream(&mut bytes, &spec, Layout::Paddle, &mut &[1; 8][..]).unwrap();
    for (at, change) in changes {
        bytes[*at..at + change.len()].copy_from_slice(change);
    }
    bytes
}

fn open(bytes: &[u8], specs: &[ParameterSpec], layout: Option<Layout>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pdiparams");
    fs::write(&path, bytes).unwrap();
    let error = ParameterFile::open(&path, Some(specs), layout).unwrap_err();
    let line = error.to_string();
    let (file, rest) = line
        .split_once("model.pdiparams: ")
        .unwrap_or_else(|| panic!("{line}"));
    assert_eq!(Path::new(file), folder.path().join(""), "{line}");
    rest.to_owned()
}

/// Offsets of the parts of a stream that [`stream`] returns, from the number of LoD levels to the
/// description.
const LEVELS: usize = 4;
const LEVEL_SIZE: usize = 12;
const INNER: usize = 36;
const DESC_SIZE: usize = 40;
const DESC: usize = 44;

#[test]
fn what_is_wrong_with_a_stream_is_named_with_its_tensor_and_offset() {
    let w = [ParameterSpec::dense("w", Type::Fp32, [2])];
    let mut big = Vec::new();
    let shaped = TensorDesc {
        data_type: Type::Fp32.into(),
        dims: vec![1 << 40, 1 << 40],
    };
    big.extend([0; 16]);
    let desc = shaped.encode_to_vec();
    big.extend(u32::try_from(desc.len()).unwrap().to_le_bytes());
    big.extend(desc);
    let negative = [0; 16]
        .iter()
        .copied()
        .chain([13, 0, 0, 0])
        .chain([8, 5, 16])
        .chain([255; 9])
        .chain([1])
        .collect::<Vec<u8>>();
    let two = [stream(&[]), stream(&[])].concat();
    let table: &[(&str, Vec<u8>, &str)] = &[
        (
            "version 1",
            stream(&[(0, &[1])]),
            "w: the version of the stream is 1, but only 0 is supported at 0x0",
        ),
        (
            "levels 2^60",
            stream(&[(LEVELS, &(1u64 << 60).to_le_bytes())]),
            "w: 1152921504606846976 LoD levels, over the limit of 64 at 0x4",
        ),
        (
            "LoD of 13 bytes",
            stream(&[(LEVEL_SIZE, &[13])]),
            "w: LoD level 0 has 13 bytes, which isn't a multiple of 8 at 0xc",
        ),
        (
            "LoD past the end",
            stream(&[(LEVEL_SIZE, &u64::MAX.wrapping_sub(7).to_le_bytes())]),
            "w: LoD level 0 has 18446744073709551608 bytes, but only 36 are left at 0x14",
        ),
        (
            "inner version",
            stream(&[(INNER, &[2])]),
            "w: the version of the tensor is 2, but only 0 is supported at 0x24",
        ),
        (
            "desc past the end",
            stream(&[(DESC_SIZE, &[200])]),
            "w: the tensor's description has 200 bytes, but only 12 are left at 0x2c",
        ),
        (
            "desc negative",
            stream(&[(DESC_SIZE, &[0, 0, 0, 0x80])]),
            "w: the tensor's description has a negative size: -2147483648 at 0x28",
        ),
        (
            "not a POD",
            stream(&[(DESC + 1, &[26])]),
            "w: data type STRINGS has no elements of a fixed size at 0x2c",
        ),
        (
            "unknown type",
            stream(&[(DESC + 1, &[99])]),
            "w: data type 99 is unknown to Paddle at 0x2c",
        ),
        (
            "dims of the program",
            stream(&[(DESC + 3, &[1])]),
            "w: the stream has dims [1], but the program has [2]; the parameters may be in another order at 0x0",
        ),
        (
            "type of the program",
            stream(&[(DESC + 1, &[2])]),
            "w: the stream has data type INT32, but the program has FP32; the parameters may be in another order at 0x0",
        ),
        (
            "dims past the end",
            stream(&[(DESC + 3, &[100])]),
            "w: the data has 400 bytes, but only 8 are left at 0x30",
        ),
        (
            "overflow",
            big,
            "w: a tensor of dims [1099511627776, 1099511627776] has more bytes than can be counted at 0x14",
        ),
        ("negative dim", negative, "w: dim 0 is negative: -1 at 0x14"),
        (
            "one more byte",
            [stream(&[]), vec![0]].concat(),
            "there are 1 bytes after the last of 1 parameters at 0x38",
        ),
        (
            "one more tensor",
            two,
            "there are 56 bytes after the last of 1 parameters at 0x38",
        ),
        (
            "nothing",
            Vec::new(),
            "w: the file ends after 0 of 1 parameters at 0x0",
        ),
    ];
    for (what, bytes, wanted) in table {
        assert_eq!(open(bytes, &w, None), *wanted, "{what}");
    }
    let both = [w[0].clone(), ParameterSpec::dense("x", Type::Fp32, [2])];
    assert_eq!(
        open(&stream(&[]), &both, None),
        "x: the file ends after 1 of 2 parameters at 0x38"
    );
}

#[test]
fn a_stream_that_is_cut_anywhere_is_refused_in_every_layout() {
    let spec = TensorSpec::dense(Type::Fp32, [2, 3]).lod([vec![0, 1, 2], vec![0, 3, 3]]);
    let w = [ParameterSpec::new("w", StreamKind::Dense)];
    for layout in Layout::ALL {
        let mut bytes = Vec::new();
        write_stream(&mut bytes, &spec, layout, &mut &[1; 24][..]).unwrap();
        for cut in 0..bytes.len() {
            let error = open(&bytes[..cut], &w, Some(layout));
            assert!(
                error.starts_with("w: ") && error.contains(" at 0x"),
                "{layout} at {cut}: {error}"
            );
        }
    }
}

#[test]
fn a_cut_names_the_field_that_it_goes_through() {
    let w = [ParameterSpec::new("w", StreamKind::Dense)];
    let dense = stream(&[]);
    let rows = {
        let mut bytes = Vec::new();
        let spec = TensorSpec::selected_rows(Type::Fp32, [2, 1], [0, 3], 4);
        write_stream(&mut bytes, &spec, Layout::Paddle, &mut &[1; 8][..]).unwrap();
        bytes
    };
    let table: &[(&[u8], usize, usize, &str)] = &[
        (&dense, 0, 4, "the version of the stream"),
        (&dense, LEVELS, 8, "the number of LoD levels"),
        (&dense, LEVEL_SIZE, 8, "the size of LoD level 0"),
        (&dense, 20, 16, "LoD level 0"),
        (&dense, INNER, 4, "the version of the tensor"),
        (&dense, DESC_SIZE, 4, "the size of the tensor's description"),
        (&dense, DESC, 4, "the tensor's description"),
        (&dense, 48, 8, "the data"),
        (&rows, 0, 4, "the version of the stream"),
        (&rows, 4, 8, "the number of rows"),
        (&rows, 12, 16, "the row numbers"),
        (&rows, 28, 8, "the height"),
        (&rows, 36, 4, "the version of the tensor"),
        (&rows, 40, 4, "the size of the tensor's description"),
        (&rows, 44, 6, "the tensor's description"),
        (&rows, 50, 8, "the data"),
    ];
    let kinds = [
        (&dense, StreamKind::Dense),
        (&rows, StreamKind::SelectedRows),
    ];
    for (bytes, at, size, what) in table {
        let (_, kind) = kinds.iter().find(|(of, _)| of == bytes).unwrap();
        let specs = [ParameterSpec::new("w", *kind)];
        for left in 0..*size {
            if at + left == 0 {
                continue;
            }
            let error = open(&bytes[..at + left], &specs, Some(Layout::Paddle));
            let wanted =
                format!("w: {what} is truncated: {left} of {size} bytes are left at {at:#x}");
            assert_eq!(error, wanted);
        }
    }
    for bytes in [dense, rows] {
        assert!(bytes.len() == 56 || bytes.len() == 58);
    }
    assert_eq!(
        open(&[], &w, Some(Layout::Paddle)),
        "w: the file ends after 0 of 1 parameters at 0x0"
    );
}

#[test]
fn a_size_in_front_that_is_not_that_of_the_stream_is_refused() {
    let w = [ParameterSpec::new("w", StreamKind::Dense)];
    let sized = |size: u64| [&size.to_le_bytes()[..], &stream(&[])].concat();
    assert_eq!(
        open(&sized(55), &w, Some(Layout::Sized)),
        "w: the data is truncated: 7 of 8 bytes are left at 0x38"
    );
    let longer = [sized(57), vec![0]].concat();
    assert_eq!(
        open(&longer, &w, Some(Layout::Sized)),
        "w: the size before the stream is 57 bytes, but the stream has 56 at 0x0"
    );
    assert_eq!(
        open(&sized(u64::MAX), &w, Some(Layout::Sized)),
        "w: the stream has 18446744073709551615 bytes, but only 56 are left at 0x8"
    );
    assert_eq!(
        open(&sized(0), &w, Some(Layout::Sized)),
        "w: the stream has no size, as after an interrupted append; truncate the file here to keep all before it at 0x0"
    );
}

#[test]
fn selected_rows_and_vocabularies_that_lie_are_refused() {
    let rows = [ParameterSpec::new("sr", StreamKind::SelectedRows)];
    let mut bytes = fs::read(fixtures().join("selected_rows/sr")).unwrap();
    bytes[4] = 2;
    assert!(open(&bytes, &rows, None).starts_with("sr: the version of the tensor is 10"));
    bytes[4..12].copy_from_slice(&(1u64 << 61).to_le_bytes());
    assert_eq!(
        open(&bytes, &rows, None),
        "sr: 2305843009213693952 rows at 0xc"
    );
    let words = [ParameterSpec::new("words", StreamKind::Vocabulary)];
    let bytes = fs::read(fixtures().join("vocab/params")).unwrap();
    for cut in 0..bytes.len() {
        assert!(
            open(&bytes[..cut], &words, None).starts_with("words: "),
            "{cut}"
        );
    }
    let many = [&u64::MAX.to_le_bytes()[..], &[0; 24]].concat();
    assert_eq!(
        open(&many, &words, None),
        "words: 18446744073709551615 words can't be in 24 bytes at 0x0"
    );
    let long = [&1u64.to_le_bytes()[..], &u64::MAX.to_le_bytes(), &[0; 4]].concat();
    assert_eq!(
        open(&long, &words, None),
        "words: word 0 has 18446744073709551615 bytes, but only 4 are left at 0x8"
    );
}

#[test]
fn lod_and_rows_that_make_no_sense_are_found_by_verify() {
    for (lod, wanted) in [
        (
            vec![vec![1, 2]],
            "w: offsets must start at 0 and not decrease: offset 0 of LoD level 0 is 1 at 0x14",
        ),
        (
            vec![vec![0, 2, 1, 2]],
            "w: offsets must start at 0 and not decrease: offset 2 of LoD level 0 is 1 at 0x24",
        ),
        (
            vec![vec![0, 3]],
            "w: LoD level 0 ends with 3, but must end with 2 at 0x14",
        ),
        (
            vec![vec![0, 2], vec![0, 2]],
            "w: LoD level 0 ends with 2, but must end with 1 at 0x14",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        let mut bytes = Vec::new();
        let spec = TensorSpec::dense(Type::Uint8, [2]).lod(lod);
        write_stream(&mut bytes, &spec, Layout::Paddle, &mut &[1; 2][..]).unwrap();
        fs::write(&path, bytes).unwrap();
        let specs = [ParameterSpec::new("w", StreamKind::Dense)];
        let file = ParameterFile::open(&path, Some(&specs), None).unwrap();
        let error = file.verify().unwrap_err().to_string();
        assert!(error.ends_with(wanted), "{error}");
    }
}

#[test]
fn rows_that_the_matrix_does_not_have_are_found_by_verify() {
    for (rows, height, wanted) in [
        (
            vec![0, 4],
            4,
            "row 1 has the number 4, but the height is 4 at 0x14",
        ),
        (
            vec![i64::MAX, 0],
            4,
            "row 0 has the number 9223372036854775807, but the height is 4 at 0xc",
        ),
        (
            vec![-1, 0],
            4,
            "row 0 has the number -1, but the height is 4 at 0xc",
        ),
        (
            vec![0, 1],
            0,
            "row 0 has the number 0, but the height is 0 at 0xc",
        ),
        (
            vec![0, 1],
            -1,
            "row 0 has the number 0, but the height is -1 at 0xc",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        let mut bytes = Vec::new();
        let spec = TensorSpec::selected_rows(Type::Uint8, [2, 1], rows, height);
        write_stream(&mut bytes, &spec, Layout::Paddle, &mut &[1; 2][..]).unwrap();
        fs::write(&path, bytes).unwrap();
        let specs = [ParameterSpec::new("sr", StreamKind::SelectedRows)];
        let file = ParameterFile::open(&path, Some(&specs), None).unwrap();
        let error = file.verify().unwrap_err().to_string();
        assert_eq!(error, format!("{}: sr: {wanted}", path.display()));
    }
}

/// Returns a serialized program with one parameter for each of these names.
pub(crate) fn program(names: &[&str]) -> Vec<u8> {
    let tensor = TensorDesc {
        data_type: Type::Fp32.into(),
        dims: vec![2],
    };
    let var = |name: &&str| VarDesc {
        name: (*name).to_owned(),
        persistable: Some(true),
        r#type: VarType {
            r#type: Type::LodTensor.into(),
            lod_tensor: Some(LoDTensorDesc {
                tensor: tensor.clone(),
                lod_level: None,
            }),
            ..VarType::default()
        },
        ..VarDesc::default()
    };
    let block = BlockDesc {
        vars: names.iter().map(var).collect(),
        ..BlockDesc::default()
    };
    let program = ProgramDesc {
        blocks: vec![block],
        ..ProgramDesc::default()
    };
    program.encode_to_vec()
}

#[test]
fn what_is_wrong_with_a_program_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pdmodel");
    let json = fs::read(fixtures().join("v331_static_pir/model.json")).unwrap();
    let pickle = fs::read(fixtures().join("static_save/model.pdparams")).unwrap();
    let cut = &program(&["w"])[..20];
    for (bytes, wanted) in [
        (
            &json[..],
            "the file is JSON, as Paddle 3.x writes to .json, not a ProgramDesc",
        ),
        (&pickle, "the file is a Python pickle"),
        (
            &program(&["w", "v", "w"]),
            "block 0 has two variables \"w\"",
        ),
        (cut, " at 0x"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = PaddleModel::open(&path).unwrap_err();
        let line = error.to_string();
        assert!(
            line.contains("model.pdmodel: ") && line.contains(wanted),
            "{line}"
        );
    }
}

#[test]
fn pickles_are_never_opened_and_the_error_says_what_to_do() {
    for name in [
        "static_save/model.pdparams",
        "static_save/model.pdopt",
        "paddle_save/dict.pkl",
        "paddle_save/tensor_pickle.pdtensor",
    ] {
        let error = PaddleModel::open(fixtures().join(name))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("pickle") && error.contains("paddle.load"),
            "{error}"
        );
    }
}

#[test]
fn two_parameters_of_one_name_in_two_blocks_are_refused() {
    let twice = [program(&["w"]), program(&["w"])].concat();
    let variables = variables(&twice).unwrap();
    assert_eq!(
        variables
            .iter()
            .map(|variable| variable.block)
            .collect::<Vec<_>>(),
        [0, 1]
    );
    let error = proto_splitter_paddle::parameters(&variables).unwrap_err();
    let wanted = format!(
        "the program has two parameters \"w\" at {:#x}",
        variables[1].place.start
    );
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn a_name_that_leads_outside_the_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("model");
    fs::create_dir(&inner).unwrap();
    fs::write(folder.path().join("outside"), stream(&[])).unwrap();
    let path = inner.join("__model__");
    for name in ["../outside", "a/../../outside", "/outside", ""] {
        fs::write(&path, program(&[name])).unwrap();
        let error = PaddleModel::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{name}: {error}");
        let wanted = format!(
            "{}: the name {name:?} can't be a file name: it would lead outside its folder at 0x",
            path.display()
        );
        assert!(error.to_string().starts_with(&wanted), "{error}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../outside", inner.join("link")).unwrap();
        fs::write(&path, program(&["link"])).unwrap();
        let error = PaddleModel::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{error}");
        assert!(
            error
                .to_string()
                .contains("link: the file of a variable is outside"),
            "{error}"
        );
    }
}

#[test]
fn parameters_in_another_order_are_refused() {
    let folder = fixtures().join("combined_all_dtypes");
    let options = PaddleOpenOptions::new()
        .program(folder.join("program.pdmodel"))
        .parameters(folder.join("params_op_order"));
    let error = PaddleModel::open_with(&folder, &options)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("params_op_order: Zupper: the stream has dims [1]"),
        "{error}"
    );
}

#[test]
fn what_paddle_itself_wrote_broken_is_refused() {
    let folder = fixtures().join("vocab");
    let options = PaddleOpenOptions::new()
        .program(folder.join("program.pdmodel"))
        .parameters(folder.join("mixed_broken"));
    let error = PaddleModel::open_with(&folder, &options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("mixed_broken: w: "), "{error}");
}

#[test]
fn many_names_and_no_files_allocate_nothing_for_what_is_only_said() {
    // Every length in these bytes is the largest possible number.
    let all = [255u8; 300];
    for layout in Layout::ALL {
        for kind in [
            StreamKind::Dense,
            StreamKind::SelectedRows,
            StreamKind::Vocabulary,
        ] {
            let specs = [ParameterSpec::new("w", kind)];
            assert!(open(&all, &specs, Some(layout)).starts_with("w: "));
        }
    }
}

#[test]
fn a_level_of_lod_beyond_the_limit_is_refused_before_the_rest_of_the_message_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.pb");
    let write = |levels: u64| {
        let parameter = model::Parameter {
            name: Some("w".into()),
            lod: vec![model::parameter::LodLevel::default(); usize::try_from(levels).unwrap()],
            ..Default::default()
        };
        let file = model::ParameterFile {
            file: Some("w.pdiparams".into()),
            parameters: vec![parameter],
            ..Default::default()
        };
        let model = model::Model {
            parameter_files: vec![file],
            ..Default::default()
        };
        fs::write(&path, model.encode_to_vec()).unwrap();
        write_model(&path, folder.path().join("to"), &PaddleWriteOptions::new()).unwrap_err()
    };
    // The message ends after the levels, which is reported only if all of them were accepted.
    let error = write(MAX_LOD_LEVELS);
    assert_eq!(error.kind(), ErrorKind::InvalidMessage, "{error}");
    assert!(error.to_string().contains("there is no tensor"), "{error}");
    let error = write(MAX_LOD_LEVELS + 1);
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let line = error.to_string();
    assert!(line.contains("w: more than 64 LoD levels at 0x"), "{line}");
}
