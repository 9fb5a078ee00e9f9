//! Tests of writing to a folder that already has files, and of files that are omitted.

use std::fs;

use proto_splitter_core::ErrorKind;
use proto_splitter_paddle::stream::Layout;
use proto_splitter_paddle::{
    Arrangement, PaddleModel, PaddleOpenOptions, PaddleWriteOptions, ProgramKind, convert,
};

use crate::support::{files, fixtures};

#[test]
fn a_file_that_would_be_read_with_what_is_written_is_in_the_way() {
    let open = |name: &str| PaddleModel::open(fixtures().join(name)).unwrap();
    let pir = fs::read(fixtures().join("v331_static_pir/model.json")).unwrap();
    let named = PaddleOpenOptions::new()
        .program(fixtures().join("combined_all_dtypes/program.pdmodel"))
        .parameters(fixtures().join("combined_all_dtypes/params"));
    let elsewhere = PaddleModel::open_with(fixtures(), &named).unwrap();
    let original = Arrangement::Original;
    let separate = Arrangement::Separate(Layout::Paddle);
    let combined = Arrangement::Combined(Layout::Paddle);
    let table: [(PaddleModel, Arrangement, &str, &[u8], bool); 12] = [
        (open("infer_fc"), separate, "__params__", b"old", true),
        (open("vars_separate"), original, "__params__", b"old", true),
        (
            open("vars_separate"),
            combined,
            "__params__.info",
            b"old",
            true,
        ),
        (
            open("infer_fc"),
            original,
            "model.pdiparams.info",
            b"old",
            true,
        ),
        (open("infer_fc"), combined, "model.json", &pir, true),
        (
            open("v331_jit_pir"),
            combined,
            "model.pdmodel",
            b"old",
            true,
        ),
        (elsewhere, original, "program.pdiparams", b"old", true),
        // These files are allowed, either because they are replaced, or because no reader looks for
        // them.
        (open("vars_separate"), combined, "__params__", b"old", false),
        (
            open("jit_save"),
            original,
            "model.pdiparams.info",
            b"old",
            false,
        ),
        (open("infer_fc"), combined, "model.json", b"{}", false),
        (open("infer_fc"), combined, "__params__", b"old", false),
        (open("infer_fc"), combined, "other.pdmodel", b"old", false),
    ];
    for (model, arrangement, name, bytes, is_in_the_way) in table {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        fs::create_dir(&to).unwrap();
        fs::write(to.join(name), bytes).unwrap();
        let before = files(&to);
        let options = PaddleWriteOptions::new()
            .arrangement(arrangement)
            .force(true);
        let converted = convert(&model, &to, &options);
        if !is_in_the_way {
            let written = converted.unwrap().files;
            assert!(written.iter().all(|path| path.is_file()), "{name}");
            let again = PaddleModel::open(&written[0]).unwrap();
            let wanted = model.parameters().count();
            assert_eq!(again.parameters().count(), wanted, "{name}");
            continue;
        }
        let error = converted.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{name}");
        let line = error.to_string();
        let path = to.join(name).display().to_string();
        assert!(
            line.contains(&format!("{path}: the existing file would be read")),
            "{line}"
        );
        assert_eq!(files(&to), before, "{name}: nothing is replaced");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_a_folder_even_on_another_file_system_is_written_through() {
    let model = PaddleModel::open(fixtures().join("vars_separate")).unwrap();
    let shared_memory = tempfile::tempdir_in("/dev/shm").ok();
    for real in shared_memory.into_iter().chain(tempfile::tempdir().ok()) {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        std::os::unix::fs::symlink(real.path(), &to).unwrap();
        for force in [false, true] {
            let written = convert(&model, &to, &PaddleWriteOptions::new().force(force)).unwrap();
            assert_eq!(written.files[0], to.join("__model__"));
            assert!(fs::symlink_metadata(&to).unwrap().is_symlink());
            assert_eq!(files(real.path()), files(&fixtures().join("vars_separate")));
        }
        let error = convert(&model, &to, &PaddleWriteOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(files(real.path()), files(&fixtures().join("vars_separate")));
    }
}

#[test]
fn what_a_killed_run_left_in_a_folder_is_not_in_the_way() {
    let model = PaddleModel::open(fixtures().join("vars_separate")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join(".protosplit-0123abcd-left.tmp");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("__model__"), b"half").unwrap();
    convert(&model, folder.path(), &PaddleWriteOptions::new()).unwrap();
    assert!(!left.exists());
    assert!(PaddleModel::open(folder.path()).is_ok());
}

#[test]
fn two_programs_in_a_folder_are_told_apart_by_name_whatever_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in [("infer_fc", "old"), ("v331_jit_pir", "new")] {
        let model = PaddleModel::open(fixtures().join(from)).unwrap();
        let program = model.program_path().unwrap();
        let end = program.extension().unwrap().to_str().unwrap();
        for end in [end, "pdiparams"] {
            let to = folder.path().join(format!("{to}.{end}"));
            fs::copy(program.with_extension(end), to).unwrap();
        }
    }
    let error = PaddleModel::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("several programs: name one of new.json, old.pdmodel"),
        "{error}"
    );
    let kind = |name: &str| {
        PaddleModel::open(folder.path().join(name))
            .unwrap()
            .program_kind()
    };
    assert_eq!(
        (kind("old"), kind("new")),
        (Some(ProgramKind::Desc), Some(ProgramKind::Pir))
    );
}

#[test]
fn a_file_that_goes_with_all_parameters_is_said_to_be_left_out_where_each_has_a_file() {
    let model = PaddleModel::open(fixtures().join("jit_save")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let left_out = |to: &str, arrangement| {
        let options = PaddleWriteOptions::new().arrangement(arrangement);
        let written = convert(&model, folder.path().join(to), &options).unwrap();
        written.left_out
    };
    let separate = left_out("separate", Arrangement::Separate(Layout::Paddle));
    assert_eq!(separate, ["model.pdiparams.info"]);
    assert!(left_out("combined", Arrangement::Combined(Layout::Paddle)).is_empty());
    assert!(left_out("original", Arrangement::Original).is_empty());
}

#[test]
fn a_file_of_the_input_is_not_replaced_even_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    fs::create_dir(&to).unwrap();
    for name in ["model.pdmodel", "model.pdiparams"] {
        fs::copy(fixtures().join("infer_fc").join(name), to.join(name)).unwrap();
    }
    let before = files(&to);
    let model = PaddleModel::open(&to).unwrap();
    for arrangement in [Arrangement::Original, Arrangement::Combined(Layout::Sized)] {
        let options = PaddleWriteOptions::new()
            .arrangement(arrangement)
            .force(true);
        let error = convert(&model, &to, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
        let line = error.to_string();
        assert!(line.contains("refusing to overwrite the input"), "{line}");
        assert_eq!(files(&to), before, "{arrangement:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
