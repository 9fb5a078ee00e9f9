//! Tests that flip bits in TensorFlow's checkpoints and in externalized models. Every verb that
//! reads a whole tensor must verify its checksum, and report the file, the tensor and the offset.

use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter::formats::{self, OpenOptions};
use proto_splitter::progress::Progress;
use proto_splitter::tensor::TensorInfo;
use proto_splitter::tensor_bundle::Bundle;
use protosplit_cli::Exit;

use crate::support::{Dir, Ran, fixture, run_all};

/// Number of bits to flip in each file.
const FLIPS: usize = 16;

/// Returns pseudorandom positions of bits to flip, as offsets and bit numbers. Each test run has
/// the same positions.
fn places(len: usize, count: usize) -> impl Iterator<Item = (usize, u8)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = usize::try_from(state >> 8).unwrap() % len;
        (at, u8::try_from(state % 8).unwrap())
    })
    .take(count)
}

fn command(words: &[&dyn AsRef<Path>]) -> Ran {
    run_all(words.iter().copied())
}

/// Reads tensors one by one, like `tensors[...]` in the Python wheel, and all together, like
/// `tensors.load()`. Returns the error of each.
fn as_the_wheel(path: &Path, wanted: impl Fn(&TensorInfo) -> bool) -> [Option<String>; 2] {
    let open = || {
        let opened = formats::ALL.open(path, &OpenOptions::new()).unwrap();
        let tensors = opened.tensors().unwrap();
        let tensors: Vec<TensorInfo> = tensors.into_iter().filter(&wanted).collect();
        (opened, tensors)
    };
    let (opened, tensors) = open();
    let by_one = tensors.iter().find_map(|tensor| {
        let read = opened.read_tensor(tensor).and_then(|read| read.to_vec());
        read.err().map(|error| error.to_string())
    });
    let (opened, tensors) = open();
    let size = |tensor: &TensorInfo| usize::try_from(tensor.bytes).unwrap();
    let mut buffers: Vec<Vec<u8>> = tensors.iter().map(|t| vec![0; size(t)]).collect();
    let wanted = tensors
        .iter()
        .zip(buffers.iter_mut().map(Vec::as_mut_slice));
    let together = opened.read_tensors_into(wanted.collect(), &Progress::none());
    [by_one, together.err().map(|error| error.to_string())]
}

fn is_number(tensor: &TensorInfo) -> bool {
    tensor.dtype.npy().is_some()
}

/// Name of the only tensor that isn't one of the checkpoint's variables.
const OBJECT_GRAPH: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";

/// Copies a checkpoint to the files `PREFIX.*`, and returns the path of the prefix.
fn checkpoint(dir: &Dir, prefix: &str) -> PathBuf {
    let source = fixture("keras_mlp/variables/variables");
    for extension in ["index", "data-00000-of-00001"] {
        dir.copy(
            &source.with_extension(extension),
            &format!("{prefix}.{extension}"),
        );
    }
    dir.path(prefix)
}

#[test]
fn a_diff_reports_damage_to_either_checkpoint() {
    let dir = Dir::new();
    let (good, bad) = (checkpoint(&dir, "good"), checkpoint(&dir, "bad"));
    let bundle = Bundle::open(&good).unwrap();
    let mut tensors = bundle.tensors().iter();
    let tensor = tensors.find(|tensor| tensor.name() != OBJECT_GRAPH);
    let tensor = tensor.unwrap();
    let data = "bad.data-00000-of-00001";
    let mut bytes = fs::read(dir.path(data)).unwrap();
    let at = usize::try_from(tensor.spans().next().unwrap().offset).unwrap();
    bytes[at] ^= 1;
    dir.file(data, bytes);
    for [first, second] in [[&bad, &good], [&good, &bad]] {
        let said = command(&[&"diff", first, second]).failed(Exit::Bad);
        for wanted in [data, tensor.name(), " at 0x"] {
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
    }
}

#[test]
fn every_verb_that_reads_a_tensor_of_a_checkpoint_compares_its_checksum() {
    let dir = Dir::new();
    let (prefix, twin) = (checkpoint(&dir, "good"), checkpoint(&dir, "twin"));
    let data = "good.data-00000-of-00001";
    let sound = fs::read(dir.path(data)).unwrap();
    let bundle = Bundle::open(&prefix).unwrap();
    let of = |at: usize| {
        let at = at as u64;
        let tensors = bundle.tensors().iter();
        let mut tensors = tensors.filter(|tensor| {
            let span = tensor.spans().next().unwrap();
            (span.offset..span.offset + span.size).contains(&at)
        });
        tensors.next().unwrap().name().to_owned()
    };
    let is_read = |tensor: &str| tensor != OBJECT_GRAPH;
    let (npz, safe, npy) = (
        dir.path("a.npz"),
        dir.path("a.safetensors"),
        dir.path("a.npy"),
    );
    let verbs = |tensor: &str| {
        let mut ran = vec![("verify", command(&[&"verify", &prefix]))];
        if is_read(tensor) {
            let get: [&dyn AsRef<Path>; 8] = [
                &"get",
                &prefix,
                &"--tensor",
                &tensor,
                &"--format",
                &"npy",
                &"-o",
                &npy,
            ];
            ran.extend([
                ("npz", command(&[&"export", &prefix, &"-o", &npz])),
                ("safetensors", command(&[&"export", &prefix, &"-o", &safe])),
                ("get", command(&get)),
                ("diff", command(&[&"diff", &prefix, &twin])),
            ]);
        }
        for made in [&npz, &safe, &npy] {
            let _ = fs::remove_file(made);
        }
        ran
    };
    for (verb, ran) in verbs(&of(100)) {
        assert_eq!(ran.exit, Exit::Done, "{verb}: {ran:?}");
    }
    assert_eq!(as_the_wheel(&prefix, is_number), [None, None]);
    // Number of flips in tensors of numbers.
    let mut of_numbers = 0;
    for (at, bit) in places(sound.len(), FLIPS).chain([(sound.len() - 1, 0)]) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << bit;
        for name in [data, "twin.data-00000-of-00001"] {
            dir.file(name, &bytes);
        }
        let tensor = of(at);
        let names = |said: &str| {
            said.contains("data-00000-of-00001")
                && said.contains(&tensor)
                && said.contains(" at 0x")
        };
        for (verb, ran) in verbs(&tensor) {
            assert_eq!(ran.exit, Exit::Bad, "{verb} {at} {tensor}: {ran:?}");
            assert!(names(&ran.err), "{verb} {at} {tensor}: {}", ran.err);
        }
        let wheel = as_the_wheel(&prefix, is_number);
        for said in wheel.iter() {
            let found = said.as_deref().is_some_and(names);
            assert_eq!(found, is_read(&tensor), "{at} {tensor}: {said:?}");
        }
        of_numbers += usize::from(is_read(&tensor));
    }
    assert!(of_numbers > 0);
}

/// Externalizes a model to the folder `name`, and returns that folder's path.
fn externalized(dir: &Dir, name: &str, mapped: bool) -> PathBuf {
    let (model, runs) = (fixture("functions_consts"), dir.path(name));
    let mut words: Vec<&dyn AsRef<Path>> = vec![&"externalize", &model, &"-o", &runs];
    words.extend([&"--min-size" as &dyn AsRef<Path>, &"1KiB"]);
    if mapped {
        words.push(&"--mmap");
    }
    assert_eq!(command(&words).exit, Exit::Done);
    runs
}

#[test]
fn every_verb_that_reads_an_externalized_model_compares_its_constants() {
    let dir = Dir::new();
    let (runs, twin) = (
        externalized(&dir, "runs", false),
        externalized(&dir, "twin", false),
    );
    let data = "assets/proto_splitter_constants.data-00000-of-00001";
    let sound = fs::read(runs.join(data)).unwrap();
    let out = ["a.npz", "a.safetensors", "merged.pb", "back"];
    let [npz, safe, merged, back] = out.map(|name| dir.path(name));
    let verbs = || {
        let ran = [
            ("verify", command(&[&"verify", &runs])),
            (
                "internalize",
                command(&[&"internalize", &runs, &"-o", &back]),
            ),
            ("npz", command(&[&"export", &runs, &"-o", &npz])),
            ("safetensors", command(&[&"export", &runs, &"-o", &safe])),
            ("merge", command(&[&"merge", &runs, &"-o", &merged])),
            ("diff", command(&[&"diff", &runs, &twin])),
        ];
        let made = [&npz, &safe, &merged, &back].map(|path| path.exists());
        for path in [&npz, &safe, &merged] {
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir_all(&back);
        (ran, made)
    };
    let (ran, made) = verbs();
    for (verb, ran) in ran {
        assert_eq!(ran.exit, Exit::Done, "{verb}: {ran:?}");
    }
    assert_eq!(made, [true; 4]);
    assert_eq!(as_the_wheel(&runs, is_number), [None, None]);
    for (at, bit) in places(sound.len(), FLIPS) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << bit;
        for folder in [&runs, &twin] {
            fs::write(folder.join(data), &bytes).unwrap();
        }
        let bundle = Bundle::open(runs.join("assets/proto_splitter_constants")).unwrap();
        let tensors = bundle.tensors().iter();
        let mut hit = tensors.filter(|tensor| {
            let span = tensor.spans().next().unwrap();
            (span.offset..span.offset + span.size).contains(&(at as u64))
        });
        let key = hit.next().unwrap().name();
        let names =
            |said: &str| said.contains(data) && said.contains(key) && said.contains(" at 0x");
        let (ran, made) = verbs();
        for (verb, ran) in ran {
            assert_eq!(ran.exit, Exit::Bad, "{verb} {at}: {ran:?}");
            assert!(names(&ran.err), "{verb} {at}: {}", ran.err);
        }
        assert_eq!(made, [false; 4], "{at}");
        for said in as_the_wheel(&runs, is_number) {
            assert!(said.as_deref().is_some_and(names), "{at}: {said:?}");
        }
    }
}

#[test]
fn what_was_kept_of_an_original_is_compared_by_internalize_and_verify() {
    let record = "assets.extra/proto_splitter_original.pb";
    for mapped in [false, true] {
        let dir = Dir::new();
        let runs = externalized(&dir, "runs", mapped);
        let back = dir.path("back");
        let sound = fs::read(runs.join(record)).unwrap();
        for (at, bit) in places(sound.len(), 4 * FLIPS) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << bit;
            fs::write(runs.join(record), bytes).unwrap();
            for words in [
                &[&"verify" as &dyn AsRef<Path>, &runs][..],
                &[&"internalize", &runs, &"-o", &back],
            ] {
                let said = command(words);
                assert_eq!(said.exit, Exit::Bad, "{at} {bit}: {said:?}");
                assert!(said.err.contains(record), "{at} {bit}: {}", said.err);
            }
            assert!(!back.exists());
        }
    }
}

#[test]
fn an_externalized_model_that_is_damaged_is_refused_by_every_verb() {
    for mapped in [false, true] {
        let dir = Dir::new();
        let runs = externalized(&dir, "runs", mapped);
        let model = runs.join("saved_model.pb");
        let sound = fs::read(&model).unwrap();
        let out = dir.path("out");
        for (at, bit) in places(sound.len(), FLIPS / 2) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << bit;
            fs::write(&model, bytes).unwrap();
            for words in [
                &[&"verify" as &dyn AsRef<Path>, &runs][..],
                &[&"internalize", &runs, &"-o", &out],
                &[&"externalize", &runs, &"-o", &out],
                &[&"merge", &runs, &"-o", &out],
                &[&"export", &runs, &"-o", &out, &"--format", &"npz"],
                &[&"split", &runs, &"-o", &out],
                &[&"convert", &runs, &out, &"--to", &"cpb"],
                &[&"tree", &runs],
            ] {
                let said = command(words);
                let verb = words[0].as_ref().display();
                assert_eq!(said.exit, Exit::Bad, "{verb} {at} {bit}: {said:?}");
                let is_named = said.err.contains("runs");
                assert!(is_named, "{verb} {at} {bit}: {}", said.err);
            }
            assert!(!out.exists());
        }
    }
}

#[test]
fn every_verb_that_reads_or_copies_a_model_in_a_folder_compares_its_variables() {
    let dir = Dir::new();
    let plain = dir.path("plain");
    let files = ["index", "data-00000-of-00001"].map(|end| format!("variables.{end}"));
    fs::create_dir_all(plain.join("variables")).unwrap();
    let source = fixture("functions_consts");
    for file in ["saved_model.pb"]
        .map(str::to_owned)
        .into_iter()
        .chain(files.clone().map(|file| format!("variables/{file}")))
    {
        fs::copy(source.join(&file), plain.join(&file)).unwrap();
    }
    let (chunked, external) = (dir.path("chunked"), dir.path("external"));
    let split: [&dyn AsRef<Path>; 6] = [
        &"split",
        &plain,
        &"-o",
        &chunked,
        &"--max-chunk-size",
        &"9KiB",
    ];
    assert_eq!(command(&split).exit, Exit::Done);
    let out = dir.path("out");
    let externalize: [&dyn AsRef<Path>; 6] = [
        &"externalize",
        &plain,
        &"-o",
        &external,
        &"--min-size",
        &"1KiB",
    ];
    assert_eq!(command(&externalize).exit, Exit::Done);
    let verbs: [(&str, Vec<&dyn AsRef<Path>>); 10] = [
        ("verify", vec![&"verify", &plain]),
        ("verify, chunked", vec![&"verify", &chunked]),
        ("verify, external", vec![&"verify", &external]),
        ("split", {
            let mut words = split.to_vec();
            words[3] = &out;
            words
        }),
        ("merge", vec![&"merge", &chunked, &"-o", &out]),
        ("externalize", {
            let mut words = externalize.to_vec();
            words[3] = &out;
            words
        }),
        ("internalize", vec![&"internalize", &external, &"-o", &out]),
        (
            "recompress",
            vec![
                &"recompress",
                &chunked,
                &"-o",
                &out,
                &"--compression",
                &"none",
            ],
        ),
        (
            "strip",
            vec![&"strip", &plain, &"-o", &out, &"--over", &"1KiB"],
        ),
        (
            "convert",
            vec![&"convert", &chunked, &"-o", &out, &"--to", &"pb"],
        ),
    ];
    let check = |wanted: Exit, changed: &str| {
        for (verb, words) in &verbs {
            let ran = command(words);
            assert_eq!(ran.exit, wanted, "{verb} {changed}: {ran:?}");
            let is_named = ran.err.contains(changed);
            assert!(is_named || wanted == Exit::Done, "{verb}: {}", ran.err);
            assert!(!out.exists() || wanted == Exit::Done, "{verb} {changed}");
            let _ = fs::remove_dir_all(&out);
        }
    };
    check(Exit::Done, "");
    for file in &files {
        let sound = fs::read(source.join("variables").join(file)).unwrap();
        // The last 48 bytes of an index file aren't covered by a checksum. They are mostly padding.
        let summed = sound.len() - if file.ends_with("index") { 48 } else { 0 };
        for (at, bit) in places(summed, FLIPS / 4) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << bit;
            for folder in [&plain, &chunked, &external] {
                fs::write(folder.join("variables").join(file), &bytes).unwrap();
            }
            check(Exit::Bad, file);
        }
        for folder in [&plain, &chunked, &external] {
            fs::write(folder.join("variables").join(file), &sound).unwrap();
        }
    }
}
