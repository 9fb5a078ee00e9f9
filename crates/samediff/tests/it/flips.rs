//! Tests of bit flips in archives: reading all bytes of a damaged entry fails, and the error names
//! the entry.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use proto_splitter_core::formats::{ConvertOptions, OpenOptions, Registry};
use proto_splitter_samediff::{
    Array, Draft, Model, Order, SafetensorsFormat, SameDiffFormat, SameDiffWriteOptions,
    TagContent, ZipCompression, import,
};

use crate::support::{floats, graph};

static FORMATS: Registry = Registry::new(&[&SameDiffFormat, &SafetensorsFormat]);

type Outcome = Result<Vec<u8>, String>;

/// Returns a 16 KiB array in Fortran order.
fn fortran() -> Array {
    let array = floats(&[8, 512], 0.0);
    let bytes = array.bytes().unwrap().read_to_vec(1 << 30).unwrap();
    Array::from_bytes(array.info().clone().with_order(Order::F), bytes).unwrap()
}

/// Returns the bytes of a model with two tags that share arrays.
fn model(compression: ZipCompression) -> Vec<u8> {
    let mut draft = Draft::new();
    for (tag, w) in [("a", 1.0), ("b", 3.0)] {
        let content = TagContent::new(graph())
            .parameter("layer/w", floats(&[2, 3], w))
            .parameter("layer/b:0", floats(&[3], 2.0))
            .updater_states("layer/w", [floats(&[2, 3], w), fortran()]);
        draft.add_tag(tag.parse().unwrap(), content).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zip");
    let options = SameDiffWriteOptions::new().compression(compression);
    draft.write(&path, &options).unwrap();
    fs::read(path).unwrap()
}

/// Returns an SDZ archive: an SDNB file, stored or deflated, under the name that Java's loader
/// expects.
fn sdz(method: zip::CompressionMethod) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/samediff/model.sdnb");
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    archive.start_file("model.sdnb", options).unwrap();
    archive.write_all(&fs::read(path).unwrap()).unwrap();
    archive.finish().unwrap().into_inner()
}

/// Returns the name of each entry in an archive, and the byte range of its stored data.
fn places(archive: &[u8]) -> Vec<(String, std::ops::Range<usize>)> {
    let mut archive = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    let count = archive.len();
    let place = |index| {
        let entry = archive.by_index_raw(index).unwrap();
        let start = usize::try_from(entry.data_start().unwrap()).unwrap();
        let len = usize::try_from(entry.compressed_size()).unwrap();
        (entry.name().unwrap().into_owned(), start..start + len)
    };
    (0..count).map(place).collect()
}

/// Returns the result of every operation that reads a model, with a name for the operation.
fn outcomes(path: &Path, names: &[String], targets: bool) -> Vec<(String, Outcome)> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut all: Vec<(String, Outcome)> = Vec::new();
    let open = || FORMATS.open(path, &OpenOptions::new());
    for name in names {
        let read = || open()?.tensor(name)?.to_vec();
        all.push((format!("get {name}"), read().map_err(|error| text(&error))));
    }
    let format: &dyn proto_splitter_core::formats::Format = &SameDiffFormat;
    for target in format.targets() {
        let convert = || {
            let options = ConvertOptions::new().force(true);
            format.convert(&open()?, target, &out, &options)?;
            Ok(fs::read(&out)?)
        };
        let converted = convert().map_err(|error: proto_splitter_core::Error| text(&error));
        all.push((format!("convert to {}", target.name), converted));
    }
    type Edit = fn(&mut Draft) -> Result<(), proto_splitter_samediff::Error>;
    let edits: [(&str, Edit); 4] = [
        ("copy", |_| Ok(())),
        ("extract", |draft| draft.extract_tag("b")),
        ("dedup", Draft::deduplicate),
        ("rename", |draft| draft.rename_variable("a", "layer/w", "v")),
    ];
    for (name, edit) in edits.into_iter().filter(|_| targets) {
        let write = || {
            let mut draft = Draft::open(&Model::open(path)?)?;
            edit(&mut draft)?;
            draft.write(&out, &SameDiffWriteOptions::new().force(true))?;
            Ok(fs::read(&out).unwrap())
        };
        let written = write().map_err(|error: proto_splitter_samediff::Error| text(&error));
        all.push((name.to_owned(), written));
    }
    let verify = || open()?.verify().map(|_| Vec::new());
    all.push(("verify".to_owned(), verify().map_err(|error| text(&error))));
    all
}

#[test]
fn a_flipped_bit_is_an_error_of_its_entry_or_in_nothing_that_is_read() {
    let kinds = [
        (model(ZipCompression::Stored), true, false),
        (model(ZipCompression::Deflated), true, true),
        (sdz(zip::CompressionMethod::Stored), false, false),
        (sdz(zip::CompressionMethod::Deflated), false, true),
    ];
    // State of a linear congruential generator.
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % below
    };
    for (bytes, is_model, is_deflated) in kinds {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.sdz");
        fs::write(&path, &bytes).unwrap();
        let tensors = FORMATS.open(&path, &OpenOptions::new()).unwrap().tensors();
        let names: Vec<String> = tensors.unwrap().into_iter().map(|of| of.name).collect();
        let sound = outcomes(&path, &names, is_model);
        for (verb, outcome) in &sound {
            assert_eq!(outcome.as_ref().err(), None, "{verb}");
        }
        for (entry, place) in places(&bytes) {
            // Flips bits at the beginning, at the end, and in between. Skips the last byte of a
            // deflated entry, which has unused bits.
            let len = 8 * (place.len() - usize::from(is_deflated));
            let bits = [0, len - 1, random(len), random(len)];
            for bit in bits {
                let mut flipped = bytes.clone();
                flipped[place.start + bit / 8] ^= 1 << (bit % 8);
                fs::write(&path, flipped).unwrap();
                let found = outcomes(&path, &names, is_model);
                let mut seen = false;
                for ((verb, sound), (_, found)) in sound.iter().zip(&found) {
                    let what = format!("{verb}, bit {bit} of {entry}");
                    match found {
                        Ok(found) => assert!(Ok(found) == sound.as_ref(), "{what}"),
                        Err(error) => {
                            let names_both =
                                error.contains("model.sdz: ") && error.contains(&entry);
                            assert!(names_both, "{what}: {error}");
                            seen = true;
                        }
                    }
                }
                assert!(seen, "bit {bit} of {entry}");
                assert!(
                    found.last().unwrap().1.is_err(),
                    "verify, bit {bit} of {entry}"
                );
            }
        }
    }
}

/// Returns the offset of every byte of the entries' names in the directory.
fn names_in_directory(archive: &[u8]) -> Vec<usize> {
    let magic = b"PK\x01\x02";
    let starts = archive.windows(4).enumerate();
    let starts = starts.filter(|(_, bytes)| bytes == magic).map(|(at, _)| at);
    let name = |at: usize| {
        let len = u16::from_le_bytes([archive[at + 28], archive[at + 29]]);
        at + 46..at + 46 + usize::from(len)
    };
    starts.flat_map(name).collect()
}

#[test]
fn a_flipped_name_in_the_directory_leaves_nothing_out() {
    let bytes = model(ZipCompression::Stored);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.sdz");
    fs::write(&path, &bytes).unwrap();
    let tensors = FORMATS.open(&path, &OpenOptions::new()).unwrap().tensors();
    let names: Vec<String> = tensors.unwrap().into_iter().map(|of| of.name).collect();
    let sound = outcomes(&path, &names, true);
    let places = names_in_directory(&bytes);
    assert!(places.len() > 100);
    for (at, bit) in places.into_iter().zip((0..8).cycle()) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        fs::write(&path, flipped).unwrap();
        let found = outcomes(&path, &names, true);
        for ((verb, sound), (_, found)) in sound.iter().zip(&found) {
            if found.is_ok() {
                assert!(found == sound, "{verb}, bit {bit} of the byte at {at}");
            }
        }
        assert!(
            found.last().unwrap().1.is_err(),
            "verify, bit {bit} of {at}"
        );
    }
}

#[test]
fn a_wrong_checksum_is_found_whatever_the_order_that_bytes_are_read_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zip");
    // Arrays with short and with long rows, larger than the block that is reordered at once.
    for shape in [[5000, 1000], [64, 80_000]] {
        let array = floats(&shape, 0.0);
        let bytes = array.bytes().unwrap().read_to_vec(1 << 30).unwrap();
        let info = array.info().clone().with_order(Order::F);
        let array = Array::from_bytes(info, bytes).unwrap();
        let mut graph = graph();
        graph.variables[1].shape = Some(shape.map(|dim| dim as i64).to_vec());
        let made = TagContent::new(graph)
            .parameter("layer/w", array)
            .parameter("layer/b:0", floats(&[3], 0.0));
        let mut draft = Draft::new();
        draft.add_tag("a".parse().unwrap(), made).unwrap();
        draft
            .write(&path, &SameDiffWriteOptions::new().force(true))
            .unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let read = || {
            let mut read = Vec::new();
            let model = Model::open(&path).unwrap();
            let array = model.default_tag().parameter("layer/w").unwrap();
            let values = array.values().unwrap().read_to_end(&mut read);
            values.map(|_| ())
        };
        read().unwrap();
        let places = places(&bytes).into_iter().map(|(_, place)| place);
        let place = places.max_by_key(|place| place.len()).unwrap();
        bytes[place.end - place.len() / 3] ^= 4;
        fs::write(&path, &bytes).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("the crc-32 is"), "{error}");
    }
}

#[test]
fn an_import_compares_the_checksum_before_any_array_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.sdz");
    fs::write(&path, sdz(zip::CompressionMethod::Stored)).unwrap();
    assert!(import(&path).is_ok());
    let mut bytes = fs::read(&path).unwrap();
    let (_, place) = places(&bytes).into_iter().next().unwrap();
    bytes[place.end - 1] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = import(&path).unwrap_err().to_string();
    assert!(
        error.contains("model.sdz: model.sdnb: the crc-32 is"),
        "{error}"
    );
}
