//! Tests that every file that a split writes is readable, and that a plan for an unreadable file is
//! rejected.

use crate::merge_support::schema::descriptor;
use crate::merge_support::{cat, entry, group, int, len};
use proto_splitter_core::merge::{Limits, ReadOptions};
use proto_splitter_core::split::{
    ChunkCompression, ComposableSplitter, DEFAULT_DEPTH_LIMIT, LARGEST_DEPTH_LIMIT, Profile,
    SizeSplitter, Source, SplitContext, SplitExt, SplitOptions,
};
use proto_splitter_core::{ChunkedFile, Error, ErrorKind, Result};
use record_file::Compression;

/// Splits a message and merges the result. Returns the number of chunks, or the error if the split
/// was refused.
fn split_and_merge(
    splitter: &impl ComposableSplitter,
    message: &[u8],
    options: &SplitOptions,
) -> std::result::Result<usize, Error> {
    let source = Source::from_bytes(message.to_vec(), descriptor());
    let plan = splitter.plan(source, options)?;
    let mut file = Vec::new();
    let source = Source::from_bytes(message.to_vec(), descriptor());
    splitter.write_to_with(source, &mut file, &options.clone().always_chunked(true))?;
    // A depth above the default limit must also be allowed when reading.
    let deepest = usize::try_from(options.get_depth_limit()).unwrap();
    let limits = Limits::new().max_message_depth(deepest);
    let file = ChunkedFile::from_source(file, &limits).unwrap();
    let with = ReadOptions::new().limits(limits);
    for with in [with.clone().descriptor(descriptor()), with] {
        let merged = file.merge_to_bytes(&with).unwrap();
        assert!(merged == message, "{} bytes", message.len());
    }
    Ok(plan.chunks().len())
}

/// Returns map values to be superseded by another value with the same key. Each has a name, and a
/// flag that is true if a merge can parse the value.
fn superseded() -> Vec<(&'static str, Vec<u8>, bool)> {
    let cut_short = vec![0x42, 0x7f, 1];
    let no_group_end = vec![0x4b, 8, 1];
    vec![
        ("a message", cat([int(1, 7), len(8, "abc")]), true),
        (
            "messages in it",
            len(9, cat([len(10, int(1, 3)), len(9, [])])),
            true,
        ),
        ("a map in it", entry(13, "k", len(2, int(1, 3))), true),
        ("a group in it", group(33, int(1, 3)), true),
        (
            "bytes that aren't messages",
            cat([len(8, &cut_short), len(37, &cut_short)]),
            true,
        ),
        ("no message", cut_short.clone(), false),
        ("a group without its end", no_group_end.clone(), false),
        ("no message in a message", len(9, &cut_short), false),
        ("no message in an element", len(10, &no_group_end), false),
        (
            "no message in a map in it",
            entry(13, "k", len(2, &cut_short)),
            false,
        ),
        ("no entry in a map in it", len(13, &cut_short), false),
        ("no message in a group", group(9, len(9, &cut_short)), false),
    ]
}

/// Returns values inside a map's value that are large enough to be cut out.
fn large() -> [(&'static str, Vec<u8>); 4] {
    let bytes = len(8, vec![7; 600]);
    [
        ("bytes", bytes.clone()),
        ("bytes of a message in it", len(9, &bytes)),
        ("elements", [len(10, &bytes), len(10, &bytes)].concat()),
        (
            "a map",
            entry(13, "k", len(2, [bytes.clone(), len(9, &bytes)].concat())),
        ),
    ]
}

#[test]
fn what_is_cut_below_a_key_that_comes_twice_is_merged_again() {
    for (name, earlier, is_sound) in superseded() {
        for (below, large) in large() {
            let twice = [earlier.as_slice(), &large].map(|value| entry(13, "k", len(2, value)));
            let message = cat([twice.concat(), int(1, 5)]);
            for profile in [Profile::TensorFlow, Profile::Extended] {
                let options = SplitOptions::new().profile(profile).value_chunk_size(None);
                let case = format!("{name}, then {below}, {profile:?}");
                // The value is cut out as a whole, or has to be cut inside.
                for most in [message.len() as u64 - 20, 500] {
                    let options = options.clone().max_chunk_size(most);
                    match split_and_merge(&SizeSplitter, &message, &options) {
                        Ok(chunks) => assert!(is_sound && chunks > 1, "{case}, {most}"),
                        Err(error) => {
                            assert!(!is_sound, "{case}, {most}: {error}");
                            assert_eq!(error.kind(), ErrorKind::Uncuttable, "{case}");
                        }
                    }
                }
            }
        }
    }
}

/// A splitter that cuts the bytes field in each of a map's values or, if `fits` is true, makes each
/// value fit in a chunk.
struct InValues {
    fits: bool,
}

struct Fitting;

impl ComposableSplitter for Fitting {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        cx.fit()
    }
}

impl ComposableSplitter for InValues {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        let message = cx.message();
        for found in message.map("ms")? {
            let (_, value) = found?;
            if self.fits {
                cx.compose(&Fitting, &value)?;
            } else if let Some(bytes) = value.get("y")? {
                cx.cut(&bytes)?;
            }
        }
        Ok(())
    }
}

#[test]
fn what_splitters_cut_below_a_key_that_comes_twice_is_merged_again() {
    for (name, earlier, is_sound) in superseded() {
        let large = [len(8, vec![7; 600]), int(1, 1)].concat();
        let twice = [earlier, large].map(|value| entry(13, "k", len(2, value)));
        let message = cat([twice.concat(), int(1, 5)]);
        for fits in [false, true] {
            let options = SplitOptions::new().max_chunk_size(601);
            match split_and_merge(&InValues { fits }, &message, &options) {
                Ok(chunks) => assert!(is_sound && chunks > 1, "{name}"),
                Err(error) => {
                    assert!(!is_sound, "{name}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Uncuttable, "{name}");
                }
            }
        }
    }
}

/// Returns maps that are nested in the values of other maps. Each map is next to a large value.
fn nested(depth: usize) -> Vec<u8> {
    let large = |at: usize| len(8, (at as u64).to_le_bytes().repeat(75));
    (0..depth).fold(large(depth), |inner, at| {
        cat([entry(13, "k", len(2, inner)), large(at)])
    })
}

#[test]
fn maps_that_nest_deep_are_merged_again_or_refused_when_planned() {
    // Each case has the maximum nesting depth of maps. It is lower in TensorFlow's profile, where a
    // chunk below a key is in a nested list.
    let cases = [
        (Profile::TensorFlow, DEFAULT_DEPTH_LIMIT, 49),
        (Profile::TensorFlow, LARGEST_DEPTH_LIMIT, 49),
        (Profile::Extended, DEFAULT_DEPTH_LIMIT, 100),
        (Profile::Extended, LARGEST_DEPTH_LIMIT, 200),
    ];
    for (profile, depth_limit, deepest) in cases {
        let options = SplitOptions::new()
            .profile(profile)
            .max_chunk_size(700)
            .depth_limit(depth_limit);
        for depth in [1, 48, 49, 50, 60, 99, 100, 101, 110, 199, 200, 201, 210] {
            let case = format!("{profile:?}, at most {depth_limit}, {depth} deep");
            match split_and_merge(&SizeSplitter, &nested(depth), &options) {
                Ok(chunks) => assert!(depth <= deepest && chunks == depth + 1, "{case}: {chunks}"),
                Err(error) => {
                    assert!(depth > deepest, "{case}: {error}");
                    let refused = [ErrorKind::LimitExceeded, ErrorKind::Uncuttable];
                    assert!(refused.contains(&error.kind()), "{case}: {error}");
                }
            }
        }
    }
}

#[test]
fn more_chunks_than_a_trailer_can_tell_of_are_refused_when_planned() {
    // If each element is in its own slice, there is little content and a large trailer.
    let options = SplitOptions::new()
        .profile(Profile::Extended)
        .max_chunk_size(4000)
        .max_slice_size(1)
        .compression(ChunkCompression::Fixed(Compression::None));
    let element = |at: u32| len(37, at.to_le_bytes());
    let message = |count| (0..count).flat_map(element).collect::<Vec<u8>>();
    let (few, many) = (message(100_000), message(900_001));

    let mut file = Vec::new();
    let source = Source::from_bytes(few.clone(), descriptor());
    SizeSplitter
        .write_to_with(source, &mut file, &options)
        .unwrap();
    let file = ChunkedFile::from_source(file, &Limits::new()).unwrap();
    assert_eq!(file.summaries().unwrap().len(), 100_000);
    assert!(file.merge_to_bytes(&ReadOptions::new()).unwrap() == few);

    let source = Source::from_bytes(many, descriptor());
    let refused = SizeSplitter.plan(source, &options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded);
    let why = "the trailer of 900001 chunks is larger than readers accept";
    assert!(refused.to_string().starts_with(why), "{refused}");
}

/// A splitter that cuts the bytes field in every value of a map, and fails if a value can't be cut.
struct InEveryValue;

impl ComposableSplitter for InEveryValue {
    fn build_chunks(&self, cx: &mut SplitContext<'_>) -> Result<()> {
        let message = cx.message();
        for found in message.map("ms")? {
            if let Some(bytes) = found?.1.get("y")? {
                cx.cut(&bytes)?;
            }
        }
        Ok(())
    }
}

#[test]
fn longer_keys_than_a_trailer_can_hold_are_refused_when_planned() {
    // There are few paths, but each contains a long key.
    let message = |entries: u32| -> Vec<u8> {
        let key = |at: u32| format!("{at:0>64000}");
        let entries = (0..entries).map(|at| entry(13, &key(at), len(2, len(8, "cut"))));
        entries.collect::<Vec<_>>().concat()
    };
    let options = SplitOptions::new().profile(Profile::Extended);
    for (entries, is_refused) in [(500, false), (1100, true)] {
        let source = Source::from_bytes(message(entries), descriptor());
        let planned = InEveryValue.plan(source, &options).map(drop);
        let refused = planned.err().map(|error| error.kind());
        let expected = is_refused.then_some(ErrorKind::LimitExceeded);
        assert_eq!(refused, expected, "{entries} entries");
    }
}

/// Checks entries from writers that put a value before its key, or omit a default key.
#[test]
fn an_entry_whose_value_comes_first_is_merged_again() {
    for size in [100 << 10, 17 << 20] {
        let value = |size| len(2, len(8, vec![7; size]));
        for (name, key) in [("behind", len(1, "k")), ("left out", Vec::new())] {
            let first = len(13, [value(size), key].concat());
            for (other, is_said) in [
                (entry(13, "z", value(2 * size)), true),
                (entry(13, "z", len(2, len(8, "small"))), true),
                // This entry has the same key as the previous entry, which is therefore superseded.
                (
                    entry(13, if name == "behind" { "k" } else { "" }, value(2 * size)),
                    false,
                ),
            ] {
                let message = cat([first.clone(), other, int(1, 5)]);
                for max in [size / 2, size + size / 2] {
                    let options = SplitOptions::new().max_chunk_size(max as u64);
                    match split_and_merge(&SizeSplitter, &message, &options) {
                        Ok(_) => {}
                        Err(error) => {
                            assert!(!is_said, "{name}, {size}, {max}: {error}");
                            assert_eq!(error.kind(), ErrorKind::Uncuttable);
                        }
                    }
                }
                let options = SplitOptions::new();
                if let Err(error) = split_and_merge(&InEveryValue, &message, &options) {
                    assert!(size > 1 << 20, "{name}, {size}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Uncuttable);
                }
            }
        }
    }
}
