//! Tests that Paddle's files have the content that Paddle itself read from them, according to
//! `manifest.json`.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_paddle::stream::StreamKind;
use proto_splitter_paddle::{PaddleModel, PaddleOpenOptions, ParameterFile, ParameterSpec};
use serde_json::Value;

use crate::support::{fixtures, sha256};

/// Returns the entries of the manifest, each with the path of its folder.
pub(crate) fn entries() -> Vec<(PathBuf, Value)> {
    let manifest = fs::read(fixtures().join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let entries = manifest["entries"].as_array().unwrap().iter();
    let with_folder = |entry: &Value| {
        (
            fixtures().join(entry["dir"].as_str().unwrap()),
            entry.clone(),
        )
    };
    entries.map(with_folder).collect()
}

/// Opens the files that contain an entry's tensors, and names the tensors as in the entry. Returns
/// `None` if there are no such files.
fn open(folder: &Path, entry: &Value) -> Option<Vec<ParameterFile>> {
    let tensors = entry["tensors"].as_array().unwrap();
    let spec = |tensor: &Value| {
        let kind = match tensor.get("rows") {
            Some(_) => StreamKind::SelectedRows,
            None => StreamKind::Dense,
        };
        ParameterSpec::new(tensor["name"].as_str().unwrap(), kind)
    };
    let file = |tensor: &Value| match tensor["file"].as_str() {
        Some(file) => Some(folder.join(file)),
        None => Some(folder.join(tensor["name"].as_str()?)).filter(|path| path.is_file()),
    };
    let mut files: Vec<PathBuf> = tensors.iter().filter_map(file).collect();
    files.dedup();
    if files.is_empty() {
        return None;
    }
    let specs = |path: &Path| -> Vec<ParameterSpec> {
        let of = tensors
            .iter()
            .filter(|tensor| file(tensor).as_deref() == Some(path));
        of.map(spec).collect()
    };
    let open = |path: &PathBuf| ParameterFile::open(path, Some(&specs(path)), None).unwrap();
    Some(files.iter().map(open).collect())
}

fn numbers(value: &Value) -> Vec<u64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .collect()
}

#[test]
fn every_tensor_is_what_paddle_says() {
    let mut seen = 0;
    for (folder, entry) in entries() {
        let Some(files) = open(&folder, &entry) else {
            continue;
        };
        for wanted in entry["tensors"].as_array().unwrap() {
            let name = wanted["name"].as_str().unwrap();
            let found = files
                .iter()
                .find_map(|file| Some((file, file.parameter(name)?)));
            let (file, parameter) = found.unwrap();
            let stream = parameter.stream();
            let what = format!("{} {name}", folder.display());
            assert_eq!(
                stream.dtype().unwrap().as_str_name(),
                wanted["dtype"],
                "{what}"
            );
            assert_eq!(stream.dims(), numbers(&wanted["dims"]), "{what}");
            let lod: Vec<_> = wanted["lod"]
                .as_array()
                .unwrap()
                .iter()
                .map(numbers)
                .collect();
            assert_eq!(stream.lod(file.bytes()).unwrap(), lod, "{what}");
            if let Some(rows) = wanted.get("rows") {
                let found = stream.rows(file.bytes()).unwrap();
                assert_eq!(serde_json::json!(found), *rows, "{what}");
                assert_eq!(
                    stream.height(),
                    wanted["height"].as_i64().unwrap(),
                    "{what}"
                );
            }
            let data = stream.data();
            assert_eq!(
                data.end - data.start,
                wanted["nbytes"].as_u64().unwrap(),
                "{what}"
            );
            if let Some(at) = wanted.get("stream_offset").and_then(Value::as_u64) {
                assert_eq!(stream.range().start, at, "{what}");
                assert_eq!(
                    data.start,
                    wanted["data_offset"].as_u64().unwrap(),
                    "{what}"
                );
                assert_eq!(
                    stream.range().end,
                    wanted["stream_end"].as_u64().unwrap(),
                    "{what}"
                );
            }
            let mut bytes = vec![0; wanted["nbytes"].as_u64().unwrap().try_into().unwrap()];
            stream.read_data(file.bytes(), &mut bytes).unwrap();
            assert_eq!(sha256(&bytes), wanted["sha256"], "{what}");
            stream.verify(file.bytes()).unwrap();
            seen += 1;
        }
    }
    // The manifest has four more tensors, which are only in pickles.
    assert_eq!(seen, 93);
}

#[test]
fn models_have_the_parameters_that_their_programs_name() {
    let mut seen = 0;
    for (folder, entry) in entries() {
        let files: Vec<&str> = entry["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| f.as_str().unwrap())
            .collect();
        let names: Vec<&str> = entry["tensors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["name"].as_str().unwrap())
            .collect();
        let options = match () {
            () if files.contains(&"__model__") => PaddleOpenOptions::new(),
            () if files.iter().any(|file| file.ends_with(".pdiparams")) => PaddleOpenOptions::new(),
            () if files.contains(&"params") && !names.is_empty() => PaddleOpenOptions::new()
                .program(folder.join("program.pdmodel"))
                .parameters(folder.join("params")),
            () => continue,
        };
        let model = PaddleModel::open_with(&folder, &options).unwrap();
        model.verify().unwrap();
        let found: Vec<&str> = model
            .parameters()
            .filter_map(|(_, parameter)| parameter.name())
            .collect();
        if !names.is_empty() {
            assert_eq!(found, names, "{}", folder.display());
        }
        seen += 1;
    }
    assert_eq!(seen, 10);
}
