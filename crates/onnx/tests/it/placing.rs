//! Replacing existing files with a pair.

use std::fs;

use prost::Message;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{Candidate, ConvertOptions, Format, OpenOptions};
use proto_splitter_onnx::external::{DataFormat, ExternalOptions, Form};
use proto_splitter_onnx::proto::ModelProto;
use proto_splitter_onnx::{OnnxFormat, OnnxOptions, OnnxSource};

use crate::support::{external, noise, of_initializers, open, raw, whole, write};

/// Returns the model at a path in one piece, and the files in its folder.
fn found(path: &std::path::Path) -> (ModelProto, Vec<String>) {
    let names = fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    (whole(path), names)
}

#[test]
fn data_of_the_model_that_was_there_goes_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let tensors = (0..5).map(|at| raw(&at.to_string(), noise(at, 5000)));
    let model = write(folder.path(), &of_initializers(tensors.collect()));
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("out.onnx");
    let write = |options: &ExternalOptions, form| {
        open(&model).unwrap().write(&target, form, options).unwrap()
    };
    fs::write(out.path().join("other-00001-of-00005.onnx.data"), b"").unwrap();
    let several = ExternalOptions::new().max_file_size(Some(5000)).force(true);
    assert_eq!(write(&several, Form::External).data_files.len(), 5);
    let one = ExternalOptions::new().force(true);
    let written = write(&one, Form::External);
    assert_eq!(written.removed_files.len(), 5);
    let (found_model, names) = found(&target);
    assert_eq!(found_model, whole(&model));
    let other = "other-00001-of-00005.onnx.data";
    assert_eq!(names, [other, "out.onnx", "out.onnx.data"]);
    // In one piece, the model contains all of its data, so the data file is removed.
    let written = write(&one, Form::OnePiece);
    assert_eq!(written.removed_files, [out.path().join("out.onnx.data")]);
    assert_eq!(
        found(&target),
        (whole(&model), vec![other.into(), "out.onnx".into()])
    );
}

#[test]
fn what_a_killed_run_left_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let model = write(
        folder.path(),
        &of_initializers(vec![raw("t", noise(1, 5000))]),
    );
    let expected = (
        whole(&model),
        vec!["out.onnx".to_owned(), "out.onnx.data".to_owned()],
    );
    type Left = fn(&std::path::Path);
    let left: [(&str, Left); 4] = [
        ("before the model was there", |out| {
            fs::rename(out.join("out.onnx.data"), out.join("out.onnx.data.new1")).unwrap();
            fs::remove_file(out.join("out.onnx")).unwrap();
        }),
        ("when the model referred to other names", |out| {
            let bytes = fs::read(out.join("out.onnx")).unwrap();
            let mut new = ModelProto::decode(&bytes[..]).unwrap();
            let tensor = &mut new.graph.as_mut().unwrap().initializer[0];
            tensor.external_data[0].value = Some("out.onnx.data.new1".into());
            fs::write(out.join("out.onnx"), new.encode_to_vec()).unwrap();
            fs::rename(out.join("out.onnx.data"), out.join("out.onnx.data.new1")).unwrap();
        }),
        ("before the second name went", |out| {
            fs::hard_link(out.join("out.onnx.data"), out.join("out.onnx.data.new2")).unwrap();
        }),
        ("when nothing was left to do", |_| {}),
    ];
    for (what, leave) in left {
        let out = tempfile::tempdir().unwrap();
        let target = out.path().join("out.onnx");
        let write = || {
            let model = open(&model).unwrap();
            model.write(&target, Form::External, &ExternalOptions::new())
        };
        write().unwrap();
        assert_eq!(found(&target), expected, "{what}");
        leave(out.path());
        let again = write();
        if what == "when nothing was left to do" {
            assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
        } else {
            again.unwrap();
        }
        assert_eq!(found(&target), expected, "{what}");
    }
}

/// Writes `out.onnx` and `edited.onnx`, which both refer to the file `data`. Returns the folder.
fn sharing(data: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tensor = external("t", 5000, &[("location", data)]);
    let model = of_initializers(vec![tensor]).encode_to_vec();
    fs::write(folder.path().join(data), noise(1, 5000)).unwrap();
    for name in ["out.onnx", "edited.onnx"] {
        fs::write(folder.path().join(name), &model).unwrap();
    }
    folder
}

#[test]
fn data_to_which_the_new_model_refers_too_is_not_removed_with_the_old_model() {
    for data in ["out.onnx.data", "out.onnx.data.new1"] {
        let check = |how: &str, write: &dyn Fn(&std::path::Path, &std::path::Path)| {
            let folder = sharing(data);
            let target = folder.path().join("out.onnx");
            let edited = folder.path().join("edited.onnx");
            let expected = whole(&edited);
            write(&edited, &target);
            let names = ["edited.onnx", "out.onnx", data].map(str::to_owned);
            assert!(folder.path().join(data).exists(), "{data}, {how}");
            assert_eq!(found(&target), (expected, names.to_vec()), "{data}, {how}");
        };
        let kept = OnnxOptions::new().keep_external(true);
        let options = ExternalOptions::new().force(true);
        for (form, format) in [
            (Form::OnePiece, DataFormat::Raw),
            (Form::External, DataFormat::Raw),
            (Form::External, DataFormat::Safetensors),
        ] {
            check(&format!("{form:?}, {format:?}"), &|edited, target| {
                let edited = OnnxSource::open(edited, &kept).unwrap();
                let options = options.clone().data_format(format);
                edited.write(target, form, &options).unwrap();
            });
        }
        let kept = OpenOptions::new().setting("keep-external", "true");
        for form in ["auto", "onnx", "external", "safetensors"] {
            check(form, &|edited, target| {
                let form = OnnxFormat.targets().iter().find(|one| one.name == form);
                let edited = Candidate::new(edited).unwrap();
                let edited = OnnxFormat.open(&edited, &kept).unwrap();
                let options = ConvertOptions::new().force(true);
                let written = OnnxFormat.convert(&edited, form.unwrap(), target, &options);
                assert_eq!(written.unwrap().notes, [""; 0]);
            });
        }
    }
}

#[test]
fn data_to_which_the_model_still_refers_is_not_overwritten() {
    let folder = sharing("out.onnx.data");
    let tensors = vec![
        external("t", 5000, &[("location", "out.onnx.data")]),
        raw("more", noise(2, 5000)),
    ];
    let model = write(folder.path(), &of_initializers(tensors));
    let target = folder.path().join("out.onnx");
    let kept = OnnxOptions::new().keep_external(true);
    let model = OnnxSource::open(&model, &kept).unwrap();
    let options = ExternalOptions::new().force(true);
    let error = model.write(&target, Form::External, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    let data = fs::read(folder.path().join("out.onnx.data")).unwrap();
    assert!(data == noise(1, 5000));
}

#[test]
fn data_of_the_input_is_not_overwritten_under_an_interim_name() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("out.onnx.data.new1");
    fs::write(&data, noise(1, 5000)).unwrap();
    let tensors = vec![
        external("t", 5000, &[("location", "out.onnx.data.new1")]),
        raw("more", noise(2, 5000)),
    ];
    let model = write(folder.path(), &of_initializers(tensors));
    let expected = whole(&model);
    let target = folder.path().join("out.onnx");
    for keep in [false, true] {
        let options = OnnxOptions::new().keep_external(keep);
        let model = OnnxSource::open(&model, &options).unwrap();
        let options = ExternalOptions::new().force(true);
        model.write(&target, Form::External, &options).unwrap();
        assert!(fs::read(&data).unwrap() == noise(1, 5000), "{keep}");
        assert_eq!(whole(&target), expected, "{keep}");
    }
}
