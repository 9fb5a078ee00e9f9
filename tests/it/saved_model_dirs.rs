//! Tests of SavedModel folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use prost_reflect::DynamicMessage;
#[cfg(unix)]
use proto_splitter::atomic::{AtomicFile, MadeFrom};
use proto_splitter::container::{ChunkKind, ChunkedFile};
use proto_splitter::directory::{FingerprintOutcome, MAX_PLAIN_SIZE, rebuild};
use proto_splitter::merge::Merger;
use proto_splitter::record_file::{Compression, ReadAt};
use proto_splitter::split::{Profile, SizeSplitter, Source, SplitExt, SplitOptions, parts_beside};
use proto_splitter::{
    Error, ErrorKind, ModelForm, SAVED_MODEL, SaveOptions, SavedModelDir, TargetForm, fingerprint,
};

use crate::fixtures::{data, descriptor};

const MODELS: [&str; 4] = [
    "functions_consts",
    "keras_mlp",
    "lookup_strings",
    "tf1_two_metagraphs",
];

fn model(name: &str) -> PathBuf {
    data("tensorflow").join(name)
}

/// Returns options for chunks of at most `max` bytes, in which values of at least a hundred bytes
/// become separate chunks.
fn small_chunks(max: u64) -> SplitOptions {
    SplitOptions::new()
        .max_chunk_size(max)
        .value_chunk_size(Some(100))
}

fn options(max: u64) -> SaveOptions {
    SaveOptions::new().split(small_chunks(max))
}

/// Returns all files in a folder and its subfolders, by relative path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

fn copy(name: &str, to: &Path) {
    let dir = SavedModelDir::open(model(name)).unwrap();
    let options = SaveOptions::new().keep_fingerprint(true);
    dir.save(to, &options).unwrap();
    assert_eq!(files(&model(name)), files(to));
}

/// Returns a text that lists the model's meta graphs and their contents.
fn listing(dir: &SavedModelDir) -> String {
    let mut text = String::new();
    for graph in dir.meta_graphs().unwrap() {
        text += &format!("{graph:?}\n");
        for (name, signature) in graph.signatures().unwrap() {
            assert_eq!(name, signature.name());
            let read = signature.read().unwrap();
            text += &format!("{signature:?} {read:?}\n");
        }
        for function in graph.functions().unwrap() {
            let read = function.read().unwrap();
            let name = read.signature.map(|signature| signature.name);
            assert_eq!(name.as_deref(), Some(function.name()));
            text += &format!("{function:?}, {} nodes\n", read.node_def.len());
        }
        text += &format!("{:?}\n", graph.variables().unwrap());
        for asset in graph.assets().unwrap() {
            assert!(asset.path.is_file(), "{asset:?}");
            text += &format!("{} for {}\n", asset.file_name, asset.tensor_name);
        }
    }
    text
}

#[test]
fn a_model_shows_the_same_in_chunks_as_in_one_piece() {
    for name in MODELS {
        let temp = tempfile::tempdir().unwrap();
        let plain = SavedModelDir::open(model(name)).unwrap();
        assert_eq!(plain.form(), ModelForm::Plain);
        let expected = listing(&plain);
        for (at, compression) in [Compression::None, Compression::ZSTD]
            .into_iter()
            .enumerate()
        {
            let to = temp.path().join(at.to_string());
            let options = SaveOptions::new().split(small_chunks(5000).compression(compression));
            let saved = plain.save_as_chunked(&to, &options).unwrap();
            assert_eq!(saved.form, ModelForm::Chunked, "{name}");
            let chunked = SavedModelDir::open(&to).unwrap();
            assert_eq!(chunked.message_size(), plain.message_size());
            assert_eq!(listing(&chunked), expected, "{name}");
        }
    }
}

#[test]
fn meta_graphs_are_found_by_their_tags() {
    let dir = SavedModelDir::open(model("tf1_two_metagraphs")).unwrap();
    let tags: Vec<_> = dir
        .meta_graphs()
        .unwrap()
        .iter()
        .map(|g| g.tags().to_vec())
        .collect();
    assert_eq!(tags, [["train"], ["serve"]]);
    assert_eq!(dir.meta_graph(&["serve"]).unwrap().unwrap().index(), 1);
    assert!(dir.meta_graph(&["serve", "train"]).unwrap().is_none());
    let variables = dir.meta_graphs().unwrap()[0].variables().unwrap();
    assert!(!variables.is_empty() && variables.iter().all(|v| v.dtype.is_none()));

    let keras = SavedModelDir::open(model("keras_mlp")).unwrap();
    let graph = keras.meta_graph(&["serve"]).unwrap().unwrap();
    assert!(
        graph
            .variables()
            .unwrap()
            .iter()
            .any(|v| v.trainable && v.shape.is_some())
    );
    let lookup = SavedModelDir::open(model("lookup_strings")).unwrap();
    let assets = lookup.meta_graphs().unwrap()[0].assets().unwrap();
    assert_eq!(assets.len(), 1);
    assert_eq!(assets[0].file_name, "vocab.txt");
}

#[test]
fn a_folder_comes_back_as_it_was_fingerprint_included() {
    for name in MODELS {
        for max in [1 << 11, 10 << 10] {
            let temp = tempfile::tempdir().unwrap();
            let (chunks, whole) = (temp.path().join("chunks"), temp.path().join("whole"));
            let dir = SavedModelDir::open(model(name)).unwrap();
            let saved = dir.save_as_chunked(&chunks, &options(max)).unwrap();
            assert!(!chunks.join("saved_model.pb").exists());
            let chunked = SavedModelDir::open(&chunks).unwrap();
            match (name, &saved.fingerprint) {
                ("tf1_two_metagraphs", FingerprintOutcome::Absent) => {}
                (_, FingerprintOutcome::Written(written)) => {
                    let stored = chunked.stored_fingerprint().unwrap().unwrap();
                    assert_eq!(*written, stored);
                    assert_eq!(chunked.fingerprint().unwrap(), stored);
                    let original = dir.stored_fingerprint().unwrap().unwrap();
                    assert_eq!(stored.uuid, original.uuid);
                    let differ = fingerprint::differences(&stored, &original);
                    assert!(
                        differ.contains(&"version.producer")
                            && !differ.contains(&"checkpoint_hash")
                    );
                }
                (name, other) => panic!("{name}: {other:?}"),
            }
            chunked.save(&whole, &SaveOptions::new()).unwrap();
            assert_eq!(files(&whole), files(&model(name)), "{name} at {max}");
        }
    }
}

#[test]
fn a_fingerprint_is_kept_where_that_is_asked_for() {
    let temp = tempfile::tempdir().unwrap();
    let dir = SavedModelDir::open(model("keras_mlp")).unwrap();
    let to = temp.path().join("to");
    let saved = dir
        .save_as_chunked(&to, &options(10 << 10).keep_fingerprint(true))
        .unwrap();
    assert_eq!(saved.fingerprint, FingerprintOutcome::Kept);
    let kept = SavedModelDir::open(&to).unwrap();
    assert_eq!(
        kept.stored_fingerprint().unwrap(),
        dir.stored_fingerprint().unwrap()
    );
    let computed = kept.fingerprint().unwrap();
    let differ = fingerprint::differences(&computed, &kept.stored_fingerprint().unwrap().unwrap());
    assert_eq!(differ.len(), 5, "all but the checkpoint's: {differ:?}");
}

#[test]
fn a_model_is_converted_in_place_there_and_back() {
    for name in MODELS {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("model");
        copy(name, &path);
        let to_chunks =
            || SavedModelDir::convert_in_place(&path, TargetForm::Chunked, &options(5000)).unwrap();
        let saved = to_chunks();
        assert!(saved.changed && saved.form == ModelForm::Chunked);
        assert!(!path.join("saved_model.pb").exists());
        assert!(!to_chunks().changed);
        let back = SaveOptions::new();
        let saved = SavedModelDir::convert_in_place(&path, TargetForm::Auto, &back).unwrap();
        assert!(saved.changed && saved.form == ModelForm::Plain);
        assert_eq!(files(&path), files(&model(name)), "{name}");
    }
}

#[test]
fn a_conversion_that_was_interrupted_goes_on_where_it_was() {
    let temp = tempfile::tempdir().unwrap();
    let (path, chunks) = (temp.path().join("model"), temp.path().join("chunks"));
    let dir = SavedModelDir::open(model("keras_mlp")).unwrap();
    dir.save_as_chunked(&chunks, &options(5000)).unwrap();
    let (plain, chunked) = (files(&model("keras_mlp")), files(&chunks));
    let file = |files: &BTreeMap<PathBuf, Vec<u8>>, name: &str| files[Path::new(name)].clone();
    // Every interruption leaves a temporary file. The second one, which comes later, also leaves
    // the new model next to the old one, and the third one the new fingerprint as well.
    for moment in 0..3 {
        for (form, old, new) in [
            (TargetForm::Chunked, &plain, &chunked),
            (TargetForm::Plain, &chunked, &plain),
        ] {
            let from = if form == TargetForm::Chunked {
                model("keras_mlp")
            } else {
                chunks.clone()
            };
            let keep = options(5000).keep_fingerprint(true).force(true);
            let same = SavedModelDir::open(&from).unwrap();
            let as_is = if form == TargetForm::Chunked {
                TargetForm::Plain
            } else {
                TargetForm::Chunked
            };
            same.save_as(&path, as_is, &keep).unwrap();
            assert_eq!(&files(&path), old);
            let model = if form == TargetForm::Chunked {
                "saved_model.cpb"
            } else {
                "saved_model.pb"
            };
            fs::write(path.join(".protosplit-abc.tmp"), "half").unwrap();
            if moment > 0 {
                fs::write(path.join(model), file(new, model)).unwrap();
            }
            if moment > 1 {
                fs::write(path.join("fingerprint.pb"), file(new, "fingerprint.pb")).unwrap();
            }
            let between = SavedModelDir::open(&path).unwrap();
            assert_eq!(between.message_size(), dir.message_size());
            SavedModelDir::convert_in_place(&path, form, &options(5000)).unwrap();
            assert_eq!(&files(&path), new, "{form:?} from moment {moment}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_conversion_keeps_a_file_that_is_being_written_to_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    copy("keras_mlp", folder.path());
    let other = folder.path().join("other.pb");
    let file = AtomicFile::create(&other, &MadeFrom::Nothing, false).unwrap();
    SavedModelDir::convert_in_place(folder.path(), TargetForm::Chunked, &options(5000)).unwrap();
    file.commit().unwrap();
    assert!(other.is_file());
}

#[test]
fn what_was_left_of_a_model_in_several_files_goes_once_its_main_file_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    copy("keras_mlp", folder.path());
    let part = folder.path().join("saved_model.00001-89abcdef.cpb");
    let convert = |form| SavedModelDir::convert_in_place(folder.path(), form, &options(5000));
    fs::write(&part, "left").unwrap();
    assert!(!convert(TargetForm::Plain).unwrap().changed);
    assert!(!part.exists());

    // If the folder has no model file, the leftover file may be the only copy of some chunks.
    fs::write(&part, "left").unwrap();
    fs::remove_file(folder.path().join("saved_model.pb")).unwrap();
    convert(TargetForm::Plain).unwrap_err();
    assert!(part.exists());
}

#[test]
fn a_model_in_several_files_is_written_to_as_many_or_to_one() {
    for has_fingerprint in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let (from, to) = (temp.path().join("from"), temp.path().join("to"));
        fs::create_dir(&from).unwrap();
        copy("keras_mlp", &from);
        let plain = fs::read(from.join("saved_model.pb")).unwrap();
        fs::remove_file(from.join("saved_model.pb")).unwrap();
        if !has_fingerprint {
            fs::remove_file(from.join("fingerprint.pb")).unwrap();
        }
        let source = Source::from_bytes(plain.clone(), descriptor(SAVED_MODEL));
        let several = SplitOptions::new()
            .max_chunk_size(4 << 10)
            .profile(Profile::Extended)
            .max_file_size(Some(8 << 10));
        let written = SizeSplitter
            .write_with(source, from.join("saved_model"), &several)
            .unwrap();
        assert!(written.files.len() > 1);

        let keep = SaveOptions::new().keep_fingerprint(true).split(several);
        let dir = SavedModelDir::open(&from).unwrap();
        dir.save_as_chunked(&to, &keep).unwrap();
        assert!(!parts_beside(to.join("saved_model.cpb")).unwrap().is_empty());
        let read = Merger::new()
            .merge_to_bytes(to.join("saved_model"))
            .unwrap();
        assert!(read == plain);

        // A `saved_model.pb` has no other files.
        let one = temp.path().join("one");
        dir.save(&one, &keep).unwrap();
        let mut names = files(&one).into_keys();
        assert!(names.all(|name| name.extension() != Some("cpb".as_ref())));
        assert!(fs::read(one.join("saved_model.pb")).unwrap() == plain);
    }
}

#[test]
fn two_different_models_side_by_side_are_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("model");
    let dir = SavedModelDir::open(model("keras_mlp")).unwrap();
    dir.save_as_chunked(&path, &options(10 << 10)).unwrap();
    fs::copy(
        model("lookup_strings").join("saved_model.pb"),
        path.join("saved_model.pb"),
    )
    .unwrap();
    let before = files(&path);
    for form in [TargetForm::Plain, TargetForm::Chunked] {
        let refused =
            SavedModelDir::convert_in_place(&path, form, &SaveOptions::new()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert!(
            refused.to_string().contains("two different models"),
            "{refused}"
        );
    }
    assert_eq!(files(&path), before);
}

#[test]
fn nothing_is_replaced_that_is_no_model_and_nothing_without_force() {
    let temp = tempfile::tempdir().unwrap();
    let dir = SavedModelDir::open(model("keras_mlp")).unwrap();
    let to = temp.path().join("to");
    fs::create_dir(&to).unwrap();
    dir.save(&to, &SaveOptions::new()).unwrap();
    let refused = dir.save(&to, &SaveOptions::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    fs::write(to.join("stale"), "").unwrap();
    dir.save(&to, &SaveOptions::new().force(true)).unwrap();
    assert!(!to.join("stale").exists());
    let home = temp.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("thesis.tex"), "").unwrap();
    let refused = dir
        .save(&home, &SaveOptions::new().force(true))
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidConfig);
    let inside = dir
        .save(model("keras_mlp").join("sub"), &SaveOptions::new())
        .unwrap_err();
    assert_eq!(inside.kind(), ErrorKind::InvalidConfig);
    let left: Vec<_> = fs::read_dir(temp.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let temp = tempfile::tempdir().unwrap();
    let to = temp.path().join("to");
    let failed = rebuild(&model("keras_mlp"), &to, &SaveOptions::new(), |prefix| {
        fs::write(prefix.with_extension("cpb"), "half").unwrap();
        Err::<(), _>(Error::new(ErrorKind::Io, "no"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_circles_and_modes_are_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let temp = tempfile::tempdir().unwrap();
    let (from, to) = (temp.path().join("from"), temp.path().join("to"));
    copy("lookup_strings", &from);
    symlink("vocab.txt", from.join("assets/link")).unwrap();
    fs::set_permissions(from.join("assets"), fs::Permissions::from_mode(0o555)).unwrap();
    let dir = SavedModelDir::open(&from).unwrap();
    dir.save(&to, &SaveOptions::new()).unwrap();
    let link = fs::symlink_metadata(to.join("assets/link")).unwrap();
    assert!(link.is_file());
    let mode = fs::metadata(to.join("assets"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o555);
    for folder in [&from, &to] {
        fs::set_permissions(folder.join("assets"), fs::Permissions::from_mode(0o755)).unwrap();
    }
    symlink("..", from.join("assets/up")).unwrap();
    let refused = dir
        .save(temp.path().join("other"), &SaveOptions::new())
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .ends_with("a link to a folder that contains it"),
        "{refused}"
    );
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 2);
}

#[cfg(unix)]
#[test]
fn links_that_double_at_each_folder_are_refused_before_they_fill_the_disk() {
    use std::os::unix::fs::symlink;
    let temp = tempfile::tempdir().unwrap();
    let from = temp.path().join("from");
    copy("lookup_strings", &from);
    // Each folder has two links to the next folder, so following all links would visit 2^20
    // folders.
    for at in 0..20 {
        let folder = temp.path().join(format!("f{at}"));
        fs::create_dir(&folder).unwrap();
        for link in ["a", "b"] {
            symlink(format!("../f{}", at + 1), folder.join(link)).unwrap();
        }
    }
    fs::create_dir(temp.path().join("f20")).unwrap();
    symlink("../f0", from.join("many")).unwrap();
    let dir = SavedModelDir::open(&from).unwrap();
    let before = fs::read_dir(temp.path()).unwrap().count();
    let refused = dir
        .save(temp.path().join("to"), &SaveOptions::new())
        .unwrap_err();
    let expected = "links lead to this folder more than 16 times";
    assert!(refused.to_string().ends_with(expected), "{refused}");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), before);
}

#[test]
fn an_asset_that_lies_outside_of_the_folder_of_assets_is_refused() {
    use prost::Message;
    use proto_splitter::proto::saved_model::{AssetFileDef, MetaGraphDef, SavedModel};
    for (name, is_inside) in [
        ("vocab.txt", true),
        ("a/b.txt", true),
        ("../x", false),
        ("a/../../x", false),
        ("/etc/passwd", false),
        ("", false),
        (".", false),
    ] {
        let temp = tempfile::tempdir().unwrap();
        let asset = AssetFileDef {
            filename: name.into(),
            ..Default::default()
        };
        let model = SavedModel {
            saved_model_schema_version: 1,
            meta_graphs: vec![MetaGraphDef {
                asset_file_def: vec![asset],
                ..Default::default()
            }],
        };
        fs::write(temp.path().join("saved_model.pb"), model.encode_to_vec()).unwrap();
        let dir = SavedModelDir::open(temp.path()).unwrap();
        let assets = dir.meta_graphs().unwrap()[0].assets();
        assert_eq!(assets.is_ok(), is_inside, "{name}: {assets:?}");
        if let Err(error) = assets {
            assert!(error.to_string().contains("outside"), "{error}");
        }
    }
}

#[test]
fn copying_tells_how_far_it_is() {
    let temp = tempfile::tempdir().unwrap();
    let told = Arc::new(Mutex::new(BTreeMap::new()));
    let told_of = told.clone();
    let options = SaveOptions::new().on_copy(move |file, copied, of| {
        assert!(copied <= of);
        told_of.lock().unwrap().insert(file.to_owned(), copied);
    });
    let dir = SavedModelDir::open(model("keras_mlp")).unwrap();
    dir.save_as_chunked(temp.path().join("to"), &options)
        .unwrap();
    let told = told.lock().unwrap();
    for name in ["variables/variables.index", "fingerprint.pb"] {
        let file = model("keras_mlp").join(name);
        assert_eq!(told[&file], fs::metadata(&file).unwrap().len());
    }
}

#[test]
fn a_model_as_text_is_read_and_saved_in_either_form() {
    let temp = tempfile::tempdir().unwrap();
    let bytes = fs::read(model("functions_consts").join("saved_model.pb")).unwrap();
    let message = DynamicMessage::decode(descriptor(SAVED_MODEL), bytes.as_slice()).unwrap();
    let text = temp.path().join("text");
    fs::create_dir(&text).unwrap();
    fs::write(text.join("saved_model.pbtxt"), message.to_text_format()).unwrap();
    let dir = SavedModelDir::open(&text).unwrap();
    assert_eq!(dir.form(), ModelForm::Text);
    let plain = SavedModelDir::open(model("functions_consts")).unwrap();
    let differ =
        fingerprint::differences(&dir.fingerprint().unwrap(), &plain.fingerprint().unwrap());
    assert_eq!(differ, ["checkpoint_hash"], "there are no variables");
    for (form, expected) in [
        (TargetForm::Plain, ModelForm::Plain),
        (TargetForm::Chunked, ModelForm::Chunked),
    ] {
        let to = temp.path().join(expected.extension());
        let saved = dir.save_as(&to, form, &options(5000)).unwrap();
        assert_eq!(saved.form, expected);
        let read = SavedModelDir::open(&to).unwrap();
        let hash = |dir: &SavedModelDir| dir.meta_graphs().unwrap()[0].size();
        assert_eq!(hash(&read), hash(&dir));
    }
}

#[cfg(unix)]
#[test]
fn a_model_that_is_made_from_text_or_chunks_is_as_private_as_they_are() {
    use std::os::unix::fs::PermissionsExt;
    let temp = tempfile::tempdir().unwrap();
    let bytes = fs::read(model("functions_consts").join("saved_model.pb")).unwrap();
    let message = DynamicMessage::decode(descriptor(SAVED_MODEL), bytes.as_slice()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let hide = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    for (form, name) in [
        (TargetForm::Plain, "saved_model.pb"),
        (TargetForm::Chunked, "saved_model.cpb"),
    ] {
        let folder = temp.path().join(name);
        fs::create_dir(&folder).unwrap();
        let text = folder.join("saved_model.pbtxt");
        fs::write(&text, message.to_text_format()).unwrap();
        hide(&text);
        SavedModelDir::convert_in_place(&folder, form, &options(5000)).unwrap();
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
    let dir = SavedModelDir::open(temp.path().join("saved_model.cpb")).unwrap();
    let chunked = SplitOptions::new().always_chunked(true);
    let written = SizeSplitter
        .write_with(dir.source().unwrap(), temp.path().join("again"), &chunked)
        .unwrap();
    assert_eq!(mode(&written.path), 0o600);
}

#[test]
fn a_model_too_large_for_a_pb_says_by_how_much() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("large");
    fs::create_dir(&path).unwrap();
    // The model's meta graph has an unknown field with a large value, which is a hole in the file.
    let size: u64 = 2_200_000_000;
    let file = fs::File::create(path.join("saved_model.pb")).unwrap();
    let mut head = Vec::new();
    for (number, len) in [(2_u64, size + 7), (100, size)] {
        prost::encoding::encode_varint(number << 3 | 2, &mut head);
        prost::encoding::encode_varint(len, &mut head);
    }
    std::io::Write::write_all(&mut &file, &head).unwrap();
    file.set_len(head.len() as u64 + size).unwrap();
    let dir = SavedModelDir::open(&path).unwrap();
    let refused = dir
        .save(temp.path().join("to"), &SaveOptions::new())
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded);
    let over = (head.len() as u64 + size - MAX_PLAIN_SIZE).to_string();
    assert!(refused.to_string().contains(&over), "{refused}");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_without_a_model_says_what_is_missing() {
    let temp = tempfile::tempdir().unwrap();
    let error = SavedModelDir::open(temp.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no saved_model.cpb, no saved_model.pb"),
        "{error}"
    );
}

#[test]
fn stored_chunks_are_checked_on_each_read_of_a_model_in_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let dir = SavedModelDir::open(model("functions_consts")).unwrap();
    let split = small_chunks(2000).compression(Compression::None);
    let stored = SaveOptions::new().split(split);
    let saved = dir
        .save_as(folder.path(), TargetForm::Chunked, &stored)
        .unwrap();
    let whole = fs::read(model("functions_consts").join("saved_model.pb")).unwrap();
    let file = fs::read(&saved.model_path).unwrap();
    let chunked = ChunkedFile::open(&saved.model_path).unwrap();
    let values = chunked.summaries().unwrap().into_iter();
    let values = values.filter(|chunk| chunk.kind == ChunkKind::Bytes);
    let largest = values.max_by_key(|chunk| chunk.size).unwrap();
    let position = chunked.position(largest.index).unwrap();
    let stored = chunked.record_file().stored(position).unwrap().chunk;
    let middle = stored.begin().0 + stored.header.data_size / 2;
    let mut bytes = file;
    bytes[usize::try_from(middle).unwrap()] ^= 1;
    fs::write(&saved.model_path, bytes).unwrap();

    let damaged = SavedModelDir::open(folder.path()).unwrap();
    let reader = damaged.reader();
    for _ in 0..2 {
        let mut read = vec![0; whole.len()];
        let error = Error::from(reader.read_exact_at(0, &mut read).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Record, "{error}");
        let source = damaged.source().unwrap();
        let mut sink = Vec::new();
        let options = SplitOptions::new().always_chunked(true);
        let split = SizeSplitter.write_to_with(source, &mut sink, &options);
        assert_eq!(split.unwrap_err().kind(), ErrorKind::Record);
    }
}
