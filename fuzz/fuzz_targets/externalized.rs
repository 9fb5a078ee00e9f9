//! Fuzzes externalization. If the first byte is even, the remaining bytes are a SavedModel: its
//! constants are moved to a checkpoint, and the original that is restored from the result must be
//! unchanged. If the first byte is odd, the remaining bytes replace the record file of an
//! externalized model, which describes the original.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use proto_splitter_externalize::{
    ExternalizeOptions, ExternalizePlan, LEAST_MIN_SIZE, RECORD_FILE, original,
};
use proto_splitter_saved_model::{SaveOptions, SavedModelDir, TargetForm};
use record_file::ReadAt;

/// Maximum number of bytes to read from a restored original.
const READ: u64 = 1 << 20;

/// Returns a serialized SavedModel with a constant, and with a function that has another constant.
fn model() -> Vec<u8> {
    let constant = |name: &str, value: char| {
        let content = value.to_string().repeat(600);
        format!(
            "node {{ name: '{name}' op: 'Const' attr {{ key: 'dtype' value {{ type: DT_UINT8 }} }} attr {{ key: 'value' value {{ \
             tensor {{ dtype: DT_UINT8 tensor_shape {{ dim {{ size: 600 }} }} tensor_content: '{content}' }} }} }} }} "
        )
    };
    let (a, b) = (
        constant("a", 'a'),
        constant("b", 'b').replacen("node", "node_def", 1),
    );
    let text = format!(
        "saved_model_schema_version: 1 meta_graphs {{ meta_info_def {{ tags: 'serve' }} graph_def {{ {a} library {{ function {{ \
         signature {{ name: 'f' }} {b} }} }} }} }}"
    );
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("saved_model.pbtxt"), text).expect("a model");
    let dir = SavedModelDir::open(folder.path()).expect("a model");
    let binary = tempfile::tempdir().expect("a folder");
    let to = binary.path().join("m");
    dir.save_as(&to, TargetForm::Plain, &SaveOptions::new())
        .expect("a model");
    std::fs::read(to.join("saved_model.pb")).expect("a model")
}

fn options() -> ExternalizeOptions {
    ExternalizeOptions::new()
        .min_size(LEAST_MIN_SIZE)
        .threads(std::num::NonZeroUsize::MIN)
}

/// Externalizes a serialized model to the folder `to`, and returns the number of constants moved;
/// `None` if that fails.
fn externalize(model: &[u8], to: &Path) -> Option<usize> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("saved_model.pb"), model).expect("a model");
    let plan = ExternalizePlan::new(folder.path(), &options()).ok()?;
    plan.write(to).ok()?;
    Some(plan.constants().len())
}

fn plant() {
    let Some(corpus) = proto_splitter_fuzz::corpus("externalized") else {
        return;
    };
    let model = model();
    std::fs::write(corpus.join("model"), [&[0], &model[..]].concat()).expect("a seed");
    let record = std::fs::read(sound().join(RECORD_FILE)).expect("a record");
    std::fs::write(corpus.join("record"), [&[1], &record[..]].concat()).expect("a seed");
}

/// Returns the folder of a valid externalized model.
fn sound() -> &'static Path {
    static FOLDER: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, model) = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("m");
        let moved = externalize(&model(), &to);
        assert_eq!(moved, Some(2), "both constants move");
        (folder, to)
    });
    model
}

fuzz_target!(
    init: plant(),
    |data: &[u8]| {
        let Some((how, bytes)) = data.split_first() else {
            return;
        };
        if how % 2 == 1 {
            static RECORD: OnceLock<&'static Path> = OnceLock::new();
            let folder = RECORD.get_or_init(sound);
            std::fs::write(folder.join(RECORD_FILE), bytes).expect("a record");
            if let Ok(Some(spans)) = original(folder) {
                let mut found = vec![0; spans.total_size().min(READ) as usize];
                let _ = spans.read_exact_at(0, &mut found);
            }
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("m");
        if externalize(bytes, &to).is_some_and(|moved| moved > 0) {
            let spans = original(&to).expect("what was written is read").expect("it is externalized");
            let mut found = vec![0; bytes.len()];
            assert_eq!(spans.total_size(), bytes.len() as u64);
            spans.read_exact_at(0, &mut found).expect("what was written is read");
            assert!(found == bytes, "the original differs");
        }
    }
);
