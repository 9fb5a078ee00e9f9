//! Tests that split protos are written with the same records as by XLA's own writers.

use proto_splitter_core::ErrorKind;
use proto_splitter_core::formats::{ConvertOptions, ConvertTarget, Format, OpenOptions, Registry};
use proto_splitter_core::path::{FieldPath, MapKey, Step};
use proto_splitter_xla::{Draft, RecordKind, SplitProto, WriteOptions, XlaFormat};
use record_file::{ReadAt, RecordFile};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

use crate::fixtures::{expected, merged, path, read};

static FORMATS: Registry = Registry::new(&[&XlaFormat]);

fn target(name: &str) -> &'static ConvertTarget {
    XlaFormat
        .targets()
        .iter()
        .find(|target| target.name == name)
        .unwrap()
}

/// Returns the number of records and the decoded size of each chunk in a record file, and the hash
/// of each record.
fn layout(bytes: &[u8]) -> (Vec<(u64, u64)>, Vec<String>) {
    let file = RecordFile::open(bytes, Default::default()).unwrap();
    let (mut chunks, mut records) = (Vec::new(), Vec::new());
    for chunk in file.chunks().map(Result::unwrap) {
        chunks.push((chunk.header.num_records, chunk.header.decoded_data_size));
        if chunk.header.num_records > 0 {
            let decoded = file.read_known_chunk(&chunk).unwrap();
            records.extend(decoded.records().map(hash));
        }
    }
    (chunks, records)
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the expected [`layout`] of a file, according to its known properties.
fn known_layout(known: &Value) -> (Vec<(u64, u64)>, Vec<String>) {
    let chunks = known["chunks"].as_array().unwrap().iter();
    let chunks = chunks.map(|chunk| {
        (
            chunk["records"].as_u64().unwrap(),
            chunk["decoded"].as_u64().unwrap(),
        )
    });
    let records = known["records"].as_array().unwrap().iter();
    let records = records.map(|record| record["sha256"].as_str().unwrap().to_owned());
    (chunks.collect(), records.collect())
}

#[test]
fn modules_are_cut_into_the_records_of_xla() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for (name, known) in expected("expected.json") {
        // Skips dumps without some of the fields that the module next to them has.
        if !known["hlo_pb"]["differs_in"].as_array().unwrap().is_empty() {
            continue;
        }
        let (beside, _) = name.split_at(name.len() - ".riegeli".len());
        for from in [format!("{beside}.hlo.pb"), name.clone()] {
            let opened = FORMATS.open(path(&from), &OpenOptions::new()).unwrap();
            let output = folder.path().join("out.riegeli");
            let options = ConvertOptions::new().force(true);
            XlaFormat
                .convert(&opened, target("split-proto"), &output, &options)
                .unwrap();
            let written = std::fs::read(&output).unwrap();
            assert_eq!(layout(&written), known_layout(&known), "{from}");
        }
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[test]
fn executables_are_cut_into_the_records_of_xla() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.riegeli");
    for (name, known) in expected("aot/expected.json") {
        let opened = FORMATS
            .open(path(&format!("aot/{name}")), &OpenOptions::new())
            .unwrap();
        let options = ConvertOptions::new().force(true);
        let converted = XlaFormat
            .convert(&opened, target("split-proto"), &output, &options)
            .unwrap();
        assert!(
            converted.notes[0].contains("around"),
            "{:?}",
            converted.notes
        );
        let written = std::fs::read(&output).unwrap();
        // Files without compression must be the same, byte for byte.
        assert_eq!(
            hash(&written),
            known["executable_and_options"]["sha256"],
            "{name}"
        );

        let inner = opened.get("serialized_executable").unwrap();
        let split = SplitProto::open(Arc::new(inner), None).unwrap();
        let draft = Draft::new(Arc::clone(split.message()), split.manifest().message_type());
        let options = WriteOptions::new().force(true);
        draft
            .unwrap()
            .write_file(&output, &Default::default(), &options)
            .unwrap();
        let written = std::fs::read(&output).unwrap();
        assert_eq!(
            layout(&written),
            known_layout(&known["serialized_executable"]),
            "{name}"
        );
    }
}

#[test]
fn every_codec_and_number_of_threads_gives_the_same_message() {
    let folder = tempfile::tempdir().unwrap();
    let opened = FORMATS
        .open(path("jax01201_scan_before.hlo.pb"), &OpenOptions::new())
        .unwrap();
    let mut all = Vec::new();
    for compression in ["none", "snappy", "zstd:3", "brotli:5"] {
        let file = |threads: usize| {
            let output = folder.path().join(format!("{compression}-{threads}"));
            let options = ConvertOptions::new()
                .setting("compression", compression)
                .threads(std::num::NonZero::new(threads));
            XlaFormat
                .convert(&opened, target("split-proto"), &output, &options)
                .unwrap();
            std::fs::read(&output).unwrap()
        };
        let (one, two) = (file(1), file(2));
        assert_eq!(one, two, "{compression}");
        all.push(merged(&SplitProto::open(Arc::new(one), None).unwrap()).unwrap());
    }
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_split_proto_is_written_in_one_piece() {
    let folder = tempfile::tempdir().unwrap();
    let name = "jax01201_cond_after";
    let opened = FORMATS
        .open(path(&format!("{name}.riegeli")), &OpenOptions::new())
        .unwrap();
    let output = folder.path().join("module.pb");
    let options = ConvertOptions::new();
    XlaFormat
        .convert(&opened, target("pb"), &output, &options)
        .unwrap();
    assert_eq!(std::fs::read(&output).unwrap(), opened.bytes().unwrap());

    let error = XlaFormat
        .convert(&opened, target("pb"), &output, &options)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let unknown = ConvertOptions::new().setting("speed", "11").force(true);
    let error = XlaFormat
        .convert(&opened, target("split-proto"), &output, &unknown)
        .unwrap_err();
    assert!(error.to_string().contains("\"speed\""), "{error}");
}

/// A message of `size` bytes that begins with `front`. All other bytes are zero, and are never
/// needed.
struct Vast {
    front: Vec<u8>,
    size: u64,
}

impl ReadAt for Vast {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let front = usize::try_from(offset)
            .ok()
            .and_then(|at| self.front.get(at..));
        let front = front.unwrap_or_default();
        let len = front.len().min(buf.len());
        buf.fill(0);
        buf[..len].copy_from_slice(&front[..len]);
        let left = usize::try_from(self.size - offset).unwrap();
        Ok(buf.len().min(left))
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.size)
    }
}

#[test]
fn a_computation_over_two_gib_is_refused_by_its_name() {
    // A module whose only computation, "big", has an instruction of 2 GiB.
    let instruction: u64 = 1 << 31;
    let varint = |value: u64| {
        let mut bytes = Vec::new();
        proto_splitter_core::wire::put_varint(&mut bytes, value);
        bytes
    };
    let instruction_head = [vec![0x12], varint(instruction)].concat();
    let computation = 5 + instruction_head.len() as u64 + instruction;
    let computation_head = [vec![0x1a], varint(computation), b"\x0a\x03big".to_vec()].concat();
    let module = computation + (computation_head.len() - 5) as u64;
    let front = [
        vec![0x0a],
        varint(module),
        computation_head,
        instruction_head,
    ]
    .concat();
    let size = front.len() as u64 + instruction;
    let error = Draft::new(Arc::new(Vast { front, size }), "xla.HloProto").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncuttable);
    let text = error.to_string();
    assert!(
        text.contains("hlo_module.computations[0] (\"big\")"),
        "{text}"
    );
    assert!(text.contains("2147483"), "{text}");
}

#[test]
fn the_bytes_of_a_dump_are_those_of_the_last_write() {
    // Writes the message twice, and checks that the bytes are the same.
    let folder = tempfile::tempdir().unwrap();
    let message: Arc<dyn ReadAt> = Arc::new(read("jax01201_matmul_before.hlo.pb"));
    let write = |name: &str| {
        let output = folder.path().join(name);
        let draft = Draft::new(Arc::clone(&message), "xla.HloProto").unwrap();
        draft
            .write_file(&output, &Default::default(), &WriteOptions::new())
            .unwrap();
        std::fs::read(output).unwrap()
    };
    assert_eq!(write("a"), write("b"));
}

/// A message of literal parts. Each part is followed by a large number of equal bytes.
struct Runs(Vec<(u64, Vec<u8>)>, u64);

impl Runs {
    /// Creates a message from its parts. Each is given by its literal bytes, and the number of
    /// bytes with the value 7 that follow it.
    fn new(parts: Vec<(Vec<u8>, u64)>) -> Runs {
        let (mut at, mut placed) = (0, Vec::new());
        for (bytes, run) in parts {
            let len = bytes.len() as u64;
            placed.push((at, bytes));
            at += len + run;
        }
        Runs(placed, at)
    }
}

impl ReadAt for Runs {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.1.saturating_sub(offset)).unwrap();
        let len = left.min(buf.len());
        buf[..len].fill(7);
        for (start, bytes) in &self.0 {
            for (at, byte) in (*start..).zip(bytes) {
                if let Some(at) = at.checked_sub(offset)
                    && let Some(place) = buf[..len].get_mut(usize::try_from(at).unwrap())
                {
                    *place = *byte;
                }
            }
        }
        Ok(len)
    }

    fn size(&self) -> std::io::Result<u64> {
        Ok(self.1)
    }
}

/// Returns the tag and length of a field whose value has `len` bytes.
fn head(number: u32, len: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    proto_splitter_core::wire::put_varint(&mut bytes, u64::from(number << 3 | 2));
    proto_splitter_core::wire::put_varint(&mut bytes, len);
    bytes
}

#[test]
fn what_is_too_large_is_planned_as_overrides_inside_of_it() {
    // The module has the computations "a" and "b". The second has two literals of 1.2 GB, one with
    // bytes and one with floats.
    let run = 1_200_000_000;
    let literal = |field| head(8, head(field, run).len() as u64 + run);
    let instruction = |field| {
        let inside = [literal(field), head(field, run)].concat();
        [head(2, inside.len() as u64 + run), inside].concat()
    };
    let (bytes, floats) = (instruction(3), instruction(8));
    let name = [head(1, 1), b"b".to_vec()].concat();
    let computation = (name.len() + bytes.len() + floats.len()) as u64 + 2 * run;
    let a = [head(3, 3), head(1, 1), b"a".to_vec()].concat();
    let module = a.len() as u64 + head(3, computation).len() as u64 + computation;
    let front = [head(1, module), a, head(3, computation), name, bytes].concat();
    let message: Arc<dyn ReadAt> = Arc::new(Runs::new(vec![(front, run), (floats, run)]));

    let descriptor = crate::fixtures::message_type("xla.HloProto");
    let error = Draft::new(Arc::clone(&message), "xla.HloProto").unwrap_err();
    assert!(
        error.to_string().contains("computations[1] (\"b\")"),
        "{error}"
    );
    let draft = Draft::extended(Arc::clone(&message), &descriptor).unwrap();
    assert!(!draft.is_for_xla());
    let kinds: Vec<String> = draft
        .manifest()
        .records()
        .iter()
        .map(|kind| match kind {
            RecordKind::Merge => "merge".to_owned(),
            RecordKind::Override(path) => path.display(Some(&descriptor)),
            RecordKind::OverrideMessage(path) => {
                format!("message {}", path.display(Some(&descriptor)))
            }
            _ => "unknown".to_owned(),
        })
        .collect();
    // Moving one of the literals makes the record small enough. A list of floats can't be
    // overridden on its own, so a literal with floats is moved as a whole.
    assert_eq!(kinds[..3], ["merge"; 3]);
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    assert_eq!(
        kinds[3],
        "message hlo_module.computations[1].instructions[1].literal"
    );

    // This record has no value that can be moved, so it is still too large.
    let small = Runs::new(vec![(head(900, 3 << 30), 3 << 30)]);
    let error = Draft::extended(Arc::new(small), &descriptor).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncuttable, "{error}");
}

#[test]
fn overrides_inside_of_elements_are_read() {
    // Overrides values in two instructions, and the name of a computation. The values are existing
    // bytes, missing bytes, and a literal of numbers.
    let descriptor = crate::fixtures::message_type("xla.HloProto");
    let path = |text: &str| proto_splitter_core::path::FieldPath::parse(text, &descriptor).unwrap();
    let kinds = [
        RecordKind::Merge,
        RecordKind::Merge,
        RecordKind::Merge,
        RecordKind::Override(path(
            "hlo_module.computations[1].instructions[0].literal.u8s",
        )),
        RecordKind::OverrideMessage(path("hlo_module.computations[1].instructions[1].literal")),
        RecordKind::Override(path("hlo_module.computations[0].name")),
        RecordKind::Merge,
    ];
    let manifest = crate::fixtures::manifest("xla.HloProto", &kinds);
    let file = crate::fixtures::record_file(&[
        &manifest,
        b"\x0a\x03\x0a\x01m",
        b"\x0a\x05\x1a\x03\x0a\x01a",
        b"\x0a\x0d\x1a\x0b\x12\x04\x42\x02\x1a\x00\x12\x03\x0a\x01i",
        b"four",
        b"\x42\x04\x00\x00\x80\x3f",
        b"new",
        b"\x0a\x02\x28\x07",
    ]);
    let split = SplitProto::open(Arc::new(file), None).unwrap();
    let found = crate::fixtures::decoded("xla.HloProto", &merged(&split).unwrap());
    let inner = b"\x12\x08\x42\x06\x1a\x04four\x12\x0b\x0a\x01i\x42\x06\x42\x04\x00\x00\x80\x3f";
    let module = [
        &b"\x0a\x01m\x1a\x05\x0a\x03new"[..],
        &head(3, inner.len() as u64),
        inner,
        b"\x28\x07",
    ]
    .concat();
    let whole = [head(1, module.len() as u64), module].concat();
    assert_eq!(found, crate::fixtures::decoded("xla.HloProto", &whole));
}

/// Returns a split proto with a module named "m", and then these overrides.
fn overridden(overrides: &[(RecordKind, &[u8])]) -> proto_splitter_core::Result<SplitProto> {
    let merge: (_, &[u8]) = (RecordKind::Merge, b"\x0a\x03\x0a\x01m");
    split_proto([&[merge], overrides].concat())
}

/// Returns a split proto with these records.
fn split_proto(all: Vec<(RecordKind, &[u8])>) -> proto_splitter_core::Result<SplitProto> {
    let (kinds, mut records): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let manifest = crate::fixtures::manifest("xla.HloProto", &kinds);
    records.insert(0, &manifest);
    SplitProto::open(Arc::new(crate::fixtures::record_file(&records)), None)
}

#[test]
fn the_last_of_many_overrides_of_a_message_takes_effect() {
    let kind = RecordKind::OverrideMessage("1".parse().unwrap());
    let mut overrides = vec![(kind.clone(), &b"\x0a\x01a"[..]); 20_000];
    overrides.push((kind, b"\x0a\x04last"));
    let split = overridden(&overrides).unwrap();
    assert_eq!(merged(&split).unwrap(), b"\x0a\x06\x0a\x04last");
}

#[test]
fn an_integer_key_is_no_index_in_a_message_of_an_unknown_type() {
    // Entries of a map, in which the key 5 doesn't have the index 5. Each value is a message.
    let entry = |key, name: &[u8]| [&[0x0a, 9, 0x08, key, 0x12, 5, 0x12, 3][..], name].concat();
    let message = |last: &[u8]| {
        [
            [0, 1, 2, 3, 4, 9].map(|key| entry(key, b"old")).concat(),
            entry(5, last),
        ]
        .concat()
    };
    let keyed = Step::key(1, MapKey::I64(5));
    let path = FieldPath::from_iter([keyed, Step::field(2)]);
    let kinds = [RecordKind::Merge, RecordKind::Override(path)];
    let manifest = crate::fixtures::manifest("xla.Unknown", &kinds);
    let records: [&[u8]; 3] = [&manifest, &message(b"old"), b"new"];
    let file = Arc::new(crate::fixtures::record_file(&records));
    let split = SplitProto::open(file, None).unwrap();
    assert_eq!(merged(&split).unwrap(), message(b"new"));
}

#[test]
fn overrides_inside_of_each_other_need_a_limited_number_of_passes() {
    // Overrides the whole module, and the name of its computation, by turns.
    let descriptor = crate::fixtures::message_type("xla.HloProto");
    let path = |text: &str| proto_splitter_core::path::FieldPath::parse(text, &descriptor).unwrap();
    let both: [(_, &[u8]); 2] = [
        (
            RecordKind::OverrideMessage(path("hlo_module")),
            b"\x1a\x03\x0a\x01a",
        ),
        (
            RecordKind::Override(path("hlo_module.computations[0].name")),
            b"new",
        ),
    ];
    let split = overridden(&vec![&both[..]; 512].concat()).unwrap();
    assert_eq!(merged(&split).unwrap(), b"\x0a\x07\x1a\x05\x0a\x03new");
    // The same, with a part of the message after each two overrides.
    let merge: (_, &[u8]) = (RecordKind::Merge, b"");
    let more = [&both[..], &[merge]].concat();
    let split = overridden(&vec![&more[..]; 512].concat()).unwrap();
    assert_eq!(merged(&split).unwrap(), b"\x0a\x07\x1a\x05\x0a\x03new");
    for part in [&both[..], &more] {
        let error = overridden(&vec![part; 513].concat()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
}

#[test]
fn overrides_of_many_elements_are_looked_for_in_a_limited_number_of_bytes() {
    // A module of 1 MB, whose computations have a long name.
    let mut computation = vec![0x1a, 100, 0x0a, 98];
    computation.resize(102, b'n');
    let computations = computation.repeat(10_000);
    let mut module = vec![0x0a];
    proto_splitter_core::wire::put_varint(&mut module, computations.len() as u64);
    module.extend(computations);

    let descriptor = crate::fixtures::message_type("xla.HloProto");
    let opened = |count: usize| {
        let mut records = vec![(RecordKind::Merge, &module[..])];
        records.extend((0..count).map(|at| {
            let path = format!("hlo_module.computations[{at}]");
            let path = proto_splitter_core::path::FieldPath::parse(&path, &descriptor).unwrap();
            (RecordKind::OverrideMessage(path), &b"\x0a\x01a"[..])
        }));
        split_proto(records)
    };
    let last = merged(&opened(1000).unwrap()).unwrap();
    assert!(
        last.windows(5)
            .filter(|at| *at == b"\x1a\x03\x0a\x01a")
            .count()
            == 1000
    );
    let error = opened(10_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}
