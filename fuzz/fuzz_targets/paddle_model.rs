//! Reads arbitrary bytes as a Paddle model, which consists of a program and a file of parameters. Reads the model as one message, and
//! converts it to other files.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use proto_splitter_core::container::{ChunkedFile, Limits};
use proto_splitter_core::merge::ReadOptions;
use proto_splitter_core::split::{SplitExt, SplitOptions};
use proto_splitter_paddle::stream::Layout;
use proto_splitter_paddle::{
    Arrangement, ModelSplitter, PaddleModel, PaddleOpenOptions, PaddleWriteOptions, convert,
    write_model,
};
use record_file::ReadAt;

/// Adds Paddle's smallest test models to the corpus, each preceded by a byte with settings and by the size of its program.
fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("paddle_model") else {
        return;
    };
    let files = proto_splitter_fuzz::root().join("../tests/data/paddle");
    for (how, program, parameters) in [
        (0, "infer_fc/model.pdmodel", "infer_fc/model.pdiparams"),
        (
            0,
            "combined_all_dtypes/program.pdmodel",
            "combined_all_dtypes/params",
        ),
        (
            4,
            "combined_all_dtypes/program.pdmodel",
            "combined_all_dtypes/params",
        ),
        (0, "selected_rows/program.pdmodel", "selected_rows/sr"),
        (
            0,
            "v331_static_oldir/model.pdmodel",
            "v331_static_oldir/model.pdiparams",
        ),
        (0, "vocab/program.pdmodel", "vocab/params"),
        (
            1,
            "v331_static_pir/model.json",
            "v331_static_pir/model.pdiparams",
        ),
        (1, "v331_jit_pir/model.json", "v331_jit_pir/model.pdiparams"),
        (2, "", "combined_more/f32_c64_c128"),
        (2, "", "combined_more/empty_first"),
    ] {
        let read = |name: &str| std::fs::read(files.join(name)).expect("a fixture");
        let bytes = if program.is_empty() {
            Vec::new()
        } else {
            read(program)
        };
        let len = u16::try_from(bytes.len())
            .expect("it is small")
            .to_le_bytes();
        for other in 0..3 {
            let front = [how | other << 6, len[0], len[1]];
            let seed = [&front, &bytes[..], &read(parameters)].concat();
            let name = format!("{}-{how}-{other}", parameters.replace('/', "-"));
            std::fs::write(corpus.join(name), seed).expect("a seed");
        }
    }
}

/// A parameter's kind and type, dimensions, level of detail, rows, height, and data.
type Content = (String, Vec<u64>, Vec<Vec<u64>>, Vec<i64>, i64, Vec<u8>);

/// Returns the parameters by name; a parameter without a name is keyed by its number. Checks that each way to find a parameter has the same
/// result. Returns `None` if a parameter can't be read.
fn parameters(model: &PaddleModel) -> Option<BTreeMap<String, Content>> {
    let all = model.read_all(NonZeroUsize::new(1));
    let mut found = BTreeMap::new();
    for (at, (file, parameter)) in model.parameters().enumerate() {
        let stream = parameter.stream();
        let size = file.bytes().size().expect("it is a file");
        let (range, data) = (stream.range(), stream.data());
        assert!(range.start <= data.start && data.end <= range.end && range.end <= size);
        let (_, same) = model.parameter_at(at).expect("it is counted");
        assert_eq!(same, parameter);
        if let Some(name) = parameter.name() {
            assert_eq!(
                model.parameter(name).expect("it is named").1.name(),
                Some(name)
            );
        }
        let bytes = stream.to_bytes(file.bytes());
        if let (Ok(bytes), Ok(all)) = (&bytes, &all) {
            assert_eq!(bytes, &all[at]);
        }
        let name = parameter
            .name()
            .map_or_else(|| at.to_string(), str::to_owned);
        let content = (
            format!("{:?} {:?}", stream.kind(), stream.dtype()),
            stream.dims().to_vec(),
            stream.lod(file.bytes()).ok()?,
            stream.rows(file.bytes()).unwrap_or_default(),
            stream.height(),
            bytes.ok()?.to_vec(),
        );
        found.insert(name, content);
    }
    Some(found)
}

/// Returns the contents of the files in a folder, by file name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.is_file() {
            let name = path.file_name().expect("a name").to_string_lossy();
            files.insert(name.into_owned(), std::fs::read(&path).expect("a file"));
        }
    }
    files
}

/// Reads the model as one message. Checks that its chunks merge to this message, and that the original files can be written from it, byte
/// for byte.
fn as_message(model: &PaddleModel, original: &BTreeMap<String, Vec<u8>>, folder: &Path) {
    let Ok(spans) = model.spans() else {
        return;
    };
    let mut message = vec![0; usize::try_from(spans.total_size()).expect("it is small")];
    spans
        .read_exact_at(0, &mut message)
        .expect("it is in the files");
    let source = model.source().expect("it is a message");
    let options = SplitOptions::new()
        .max_chunk_size(300)
        .always_chunked(true)
        .threads(NonZeroUsize::MIN);
    let mut chunks = Vec::new();
    if let Ok(split) = ModelSplitter.write_to_with(source, &mut chunks, &options) {
        let file =
            ChunkedFile::from_source(chunks, &Limits::new()).expect("what was written is read");
        let merged = file
            .merge_to_bytes(&ReadOptions::new())
            .expect("what was written is merged");
        assert!(!split.byte_exact || merged.to_vec() == message);
    }
    let path = folder.join("message.pb");
    std::fs::write(&path, message).expect("a message");
    let to = folder.join("from-message");
    if write_model(&path, &to, &PaddleWriteOptions::new()).is_ok() {
        assert_eq!(&files(&to), original);
    }
}

fuzz_target!(init: plant(), |data: &[u8]| {
    let Some((&[how, low, high], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    let at = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (program, bytes) = rest.split_at(at);
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("model");
    std::fs::create_dir(&inside).expect("a folder");
    let name = if how & 1 == 0 { "m.pdmodel" } else { "m.json" };
    if how & 2 == 0 {
        std::fs::write(inside.join(name), program).expect("a program");
    }
    std::fs::write(inside.join("m.pdiparams"), bytes).expect("parameters");
    let layout = |options: PaddleOpenOptions, number: u8| match number.checked_sub(1) {
        Some(number) => options.layout(Layout::ALL[usize::from(number) % 3]),
        None => options,
    };
    let options = layout(PaddleOpenOptions::new(), how >> 2 & 3);
    let Ok(model) = PaddleModel::open_with(inside.join("m.pdiparams"), &options) else {
        return;
    };
    let _ = (model.program_kind(), model.program_path(), model.program_bytes());
    for variable in model.variables() {
        let _ = (variable.kind(), variable.dtype(), variable.bytes());
    }
    let is_sound = model.verify().is_ok();
    let known = parameters(&model);
    as_message(&model, &files(&inside), folder.path());

    let to = Layout::ALL[usize::from(how >> 4) % 3];
    let arrangement = match how >> 6 {
        0 => Arrangement::Original,
        1 => Arrangement::Combined(to),
        _ => Arrangement::Separate(to),
    };
    let target = folder.path().join("converted");
    let writing = PaddleWriteOptions::new().arrangement(arrangement);
    if let Ok(written) = convert(&model, &target, &writing) {
        assert!(written.files.iter().all(|file| file.starts_with(&target)));
        let reading = match arrangement {
            Arrangement::Original => options,
            _ => PaddleOpenOptions::new().layout(to),
        };
        // Without a program, the model is opened by the path of a file of parameters. If no parameter has a separate file, there is no such
        // file.
        let path = match how & 2 {
            0 => written.files.first(),
            _ => written.files.last(),
        };
        if let Some(path) = path.filter(|_| is_sound) {
            let again = PaddleModel::open_with(path, &reading).expect("what was written is read");
            assert_eq!(parameters(&again), known, "{arrangement:?}");
        }
    }
    let entries = std::fs::read_dir(folder.path()).expect("a folder");
    let names: BTreeSet<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    let expected = ["model", "message.pb", "from-message", "converted"];
    assert!(names.iter().all(|name| expected.iter().any(|known| name == known)), "{names:?}");
});
