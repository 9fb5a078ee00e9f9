//! Tests of appending tensors to files in the sized layout.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use proto_splitter_core::ErrorKind;
use proto_splitter_paddle::proto::framework::var_type::Type;
use proto_splitter_paddle::stream::{Layout, StreamKind, TensorSpec};
use proto_splitter_paddle::{
    PaddleModel, PaddleOpenOptions, ParameterFile, ParameterSpec, ParameterWriter, append,
    append_to_model,
};

use crate::support::fixtures;

#[test]
fn a_counter_hops_to_any_tensor_of_a_sized_file_and_more_are_appended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parameters");
    let mut writer = ParameterWriter::create(&path, Layout::Sized, false).unwrap();
    for k in 0..3u8 {
        let spec = TensorSpec::dense(Type::Uint8, [u64::from(k)]);
        assert_eq!(
            writer.write(&spec, &mut &vec![k; k.into()][..]).unwrap(),
            u64::from(k)
        );
    }
    assert!(!path.exists());
    writer.finish().unwrap();
    let spec = TensorSpec::dense(Type::Uint8, [2]);
    let before = fs::read(&path).unwrap();
    let error = append(&path, &spec, &mut &[1][..]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert_eq!(
        fs::read(&path).unwrap(),
        before,
        "a failed append leaves the file unchanged"
    );
    assert_eq!(append(&path, &spec, &mut &[3, 3][..]).unwrap(), 3);
    let names = ["a", "b", "c", "d"].map(|name| ParameterSpec::new(name, StreamKind::Dense));
    let file = ParameterFile::open(&path, Some(&names), None).unwrap();
    let mut data = [0; 2];
    file.parameters()[3]
        .stream()
        .read_data(file.bytes(), &mut data)
        .unwrap();
    assert_eq!(data, [3, 3]);
    assert_eq!(file.parameter("c"), Some(&file.parameters()[2]));
    assert_eq!(fs::read(&path).unwrap()[..before.len()], before);
}

#[test]
fn appending_to_another_layout_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parameters");
    let spec = TensorSpec::dense(Type::Uint8, [1]);
    let mut writer = ParameterWriter::create(&path, Layout::Paddle, false).unwrap();
    writer.write(&spec, &mut &[1][..]).unwrap();
    writer.finish().unwrap();
    let before = fs::read(&path).unwrap();
    assert!(append(&path, &spec, &mut &[1][..]).is_err());
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// Writes a parameter file with two tensors in the sized layout, and returns its path.
fn two(folder: &Path) -> PathBuf {
    let path = folder.join("parameters");
    let mut writer = ParameterWriter::create(&path, Layout::Sized, false).unwrap();
    for k in [5, 6] {
        let spec = TensorSpec::dense(Type::Uint8, [k]);
        writer.write(&spec, &mut io::repeat(7)).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// A reader of a tensor's data. Before each read, it records the current content of the file to
/// which the data is appended. This content would remain if the process ended at this point.
struct Watching<'a> {
    path: &'a Path,
    left: usize,
    fails: bool,
    seen: Vec<Vec<u8>>,
}

impl Read for Watching<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.seen.push(fs::read(self.path)?);
        let len = buf.len().min(self.left);
        if self.fails && len == 0 {
            return Err(io::Error::other("the data is gone"));
        }
        buf[..len].fill(3);
        self.left -= len;
        Ok(len)
    }
}

#[test]
fn an_append_that_is_broken_off_at_any_time_leaves_a_file_that_says_where_to_cut_it() {
    const SIZE: usize = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let path = two(folder.path());
    let before = fs::read(&path).unwrap();
    let spec = TensorSpec::dense(Type::Uint8, [SIZE as u64]);
    let mut data = Watching {
        path: &path,
        left: SIZE,
        fails: false,
        seen: Vec::new(),
    };
    assert_eq!(append(&path, &spec, &mut data).unwrap(), 2);
    let left = folder.path().join("left");
    let mut torn = 0;
    for bytes in data.seen {
        assert_eq!(bytes[..before.len()], before);
        fs::write(&left, &bytes).unwrap();
        if bytes.len() == before.len() {
            continue;
        }
        let wanted = format!(
            "{}: tensor 2: the stream has no size, as after an interrupted append; truncate the file here to keep all before it at {:#x}",
            left.display(),
            before.len()
        );
        let error = ParameterFile::open(&left, None, Some(Layout::Sized)).unwrap_err();
        assert_eq!(error.to_string(), wanted);
        let error = append(&left, &spec, &mut io::repeat(1)).unwrap_err();
        assert_eq!(error.to_string(), wanted);
        assert_eq!(fs::read(&left).unwrap(), bytes, "nothing is appended to it");
        torn += 1;
    }
    assert!(torn > 2, "{torn}");
    let at = |file: &ParameterFile| file.parameters()[2].stream().data();
    let file = ParameterFile::open(&path, None, None).unwrap();
    assert_eq!((file.parameters().len(), at(&file).count()), (3, SIZE));
}

#[test]
fn an_append_that_fails_midway_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = two(folder.path());
    let before = fs::read(&path).unwrap();
    for (size, fails, kind) in [
        (100_001, true, ErrorKind::Io),
        (100_001, false, ErrorKind::InvalidConfig),
    ] {
        let spec = TensorSpec::dense(Type::Uint8, [size]);
        let mut data = Watching {
            path: &path,
            left: 100_000,
            fails,
            seen: Vec::new(),
        };
        let error = append(&path, &spec, &mut data).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(data.seen.last().unwrap().len() > before.len());
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn nothing_is_appended_to_a_damaged_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = two(folder.path());
    let good = fs::read(&path).unwrap();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    // The first stream consists of its size (8 bytes), a header that contains a 4-byte description
    // (24 bytes), and 5 bytes of data.
    let second = 8 + 24 + 5;
    for (bytes, wanted) in [
        (
            good[..good.len() - 1].to_vec(),
            "tensor 1: the stream has 30 bytes, but only 29 are left at 0x2d",
        ),
        (good[..second + 3].to_vec(), "tensor 1: "),
        ([&good[..], &[1]].concat(), "tensor 2: "),
        (with(0, 28), "tensor 0: the data is truncated"),
        (with(8, 1), "tensor 0: the version of the stream is 1"),
        (with(second, 200), "tensor 1: the stream has 200 bytes"),
        (
            with(second + 8, 9),
            "tensor 1: the version of the stream is 9",
        ),
    ] {
        fs::write(&path, &bytes).unwrap();
        let spec = TensorSpec::dense(Type::Uint8, [1]);
        let error = append(&path, &spec, &mut io::repeat(1))
            .unwrap_err()
            .to_string();
        let front = format!("{}: {wanted}", path.display());
        assert!(
            error.starts_with(&front) && error.contains(" at 0x"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), bytes, "{wanted}");
    }
}

#[test]
fn a_model_gets_the_parameters_of_its_program_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let [program, path] = ["model.pdmodel", "model.pdiparams"].map(|name| folder.path().join(name));
    fs::copy(fixtures().join("infer_fc/model.pdmodel"), &program).unwrap();
    fs::write(&path, []).unwrap();
    let append = |spec: &TensorSpec, data: &[u8]| {
        append_to_model(
            folder.path(),
            &PaddleOpenOptions::new(),
            spec,
            &mut &data[..],
        )
    };
    let original = PaddleModel::open(fixtures().join("infer_fc")).unwrap();
    let all = original.read_all(None).unwrap();
    for (counter, (_, parameter)) in original.parameters().enumerate() {
        let before = fs::read(&path).unwrap();
        let (dtype, dims) = (
            parameter.stream().dtype().unwrap(),
            parameter.stream().dims(),
        );
        let name = parameter.name().unwrap();
        let another = [dims, &[1][..]].concat();
        for (spec, wanted) in [
            (TensorSpec::dense(Type::Int8, dims), "has data type INT8"),
            (TensorSpec::dense(dtype, another), "has dims ["),
        ] {
            let error = append(&spec, &all[counter]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
            let wanted = format!("{}: {name}: the tensor {wanted}", path.display());
            assert!(error.to_string().starts_with(&wanted), "{error}");
        }
        let longer = [&all[counter][..], &[0]].concat();
        let error = append(&TensorSpec::dense(dtype, dims), &longer).unwrap_err();
        assert!(error.to_string().contains("bytes of the tensor"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before);

        let appended = append(&TensorSpec::dense(dtype, dims), &all[counter]).unwrap();
        assert_eq!(
            (&appended.file, appended.counter, appended.name.as_deref()),
            (&path, counter as u64, Some(name))
        );
    }
    let model = PaddleModel::open(folder.path()).unwrap();
    model.verify().unwrap();
    assert_eq!(model.read_all(None).unwrap(), all);
    let scalar = TensorSpec::dense(Type::Int8, []);
    let error = append(&scalar, &[1]).unwrap_err().to_string();
    assert!(
        error.ends_with("the file already has all 4 parameters of the program"),
        "{error}"
    );
}

#[test]
fn levels_of_detail_that_divide_something_else_are_not_appended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parameters");
    fs::write(&path, []).unwrap();
    let append = |lod: Vec<Vec<u64>>| {
        let spec = TensorSpec::dense(Type::Uint8, [3]).lod(lod);
        append_to_model(&path, &PaddleOpenOptions::new(), &spec, &mut &[1, 2, 3][..])
    };
    for lod in [
        vec![vec![]],
        vec![vec![0]],
        vec![vec![1, 3]],
        vec![vec![0, 2]],
        vec![vec![0, 2, 1, 3]],
        vec![vec![0, 3], vec![0, 3]],
    ] {
        let error = append(lod).unwrap_err();
        assert!(
            error.to_string().contains("doesn't run from 0 to"),
            "{error}"
        );
    }
    append(vec![vec![0, 1, 2], vec![0, 1, 3]]).unwrap();
    PaddleModel::open(&path).unwrap().verify().unwrap();
}

#[test]
fn nothing_is_appended_where_each_parameter_has_a_file() {
    let model = fixtures().join("vars_separate");
    let spec = TensorSpec::dense(Type::Int8, []);
    let error = append_to_model(&model, &PaddleOpenOptions::new(), &spec, &mut &[1][..]);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("in a separate file"), "{error}");
}
