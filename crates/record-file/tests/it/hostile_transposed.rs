//! Tests with transposed chunks that have correct hashes, but state machines that no writer would
//! produce.
use std::time::{Duration, Instant};

use record_file::{
    ChunkOffset, Error, ErrorKind, FieldProjection, ReaderOptions, RecordFile, RecordReader,
};

use crate::hostile_chunks::{BEGIN, read, refused};
use crate::support::frame::{self, Frame, varint_of};

/// The parts of an uncompressed transposed chunk.
#[derive(Debug, Clone)]
struct Machine {
    buckets: Vec<Vec<u8>>,
    buffers: Vec<u64>,
    tags: Vec<u64>,
    next: Vec<u64>,
    kinds: Vec<u8>,
    state_buffers: Vec<u64>,
    first: u64,
    transitions: Vec<u8>,
}

impl Machine {
    /// Returns the machine for two records that are not messages, "b" and "aa". It emits "aa"
    /// first.
    fn raw() -> Self {
        Machine {
            buckets: vec![b"aab\x02\x01".to_vec()],
            buffers: vec![3, 2],
            tags: vec![1],
            next: vec![0],
            kinds: vec![],
            state_buffers: vec![0],
            first: 0,
            transitions: vec![0],
        }
    }

    /// Returns the machine for a message with fields 1 and 2, where field 2 is a message with field
    /// 1.
    ///
    /// The states are visited backwards: the end of the submessage, its field, its beginning, field
    /// 1, and the beginning of the whole message.
    fn nested() -> Self {
        let implicit = |state: u64| 5 + state;
        Machine {
            buckets: vec![vec![0x2c, 0x02]],
            buffers: vec![2],
            tags: vec![2 << 3 | 6, 1 << 3, 2, 1 << 3, 3],
            next: vec![implicit(1), implicit(2), implicit(3), implicit(4), 0],
            // One varint has two bytes in the buffer, and the other is a value in the state itself.
            kinds: vec![1, 10 + 5],
            state_buffers: vec![0],
            first: 0,
            transitions: vec![],
        }
    }

    /// Returns a machine like [`nested`](Self::nested), but with a submessage that begins in one
    /// record and ends in the next.
    fn across() -> Self {
        let mut machine = Self::nested();
        machine.next[1] = 5 + 4;
        machine.transitions = vec![2 << 2];
        machine
    }

    fn encode(&self) -> Vec<u8> {
        let mut header = Vec::new();
        let mut push = |values: &[u64]| {
            values
                .iter()
                .for_each(|&value| frame::varint(&mut header, value));
        };
        push(&[self.buckets.len() as u64, self.buffers.len() as u64]);
        let lens: Vec<_> = self
            .buckets
            .iter()
            .map(|bucket| bucket.len() as u64)
            .collect();
        push(&lens);
        push(&self.buffers);
        push(&[self.tags.len() as u64]);
        push(&self.tags);
        push(&self.next);
        header.extend(&self.kinds);
        for &buffer in &self.state_buffers {
            frame::varint(&mut header, buffer);
        }
        frame::varint(&mut header, self.first);
        self.around(&header)
    }

    /// Encodes the machine with the given header.
    fn around(&self, header: &[u8]) -> Vec<u8> {
        [
            &[0],
            &varint_of(header.len() as u64)[..],
            header,
            &self.buckets.concat(),
            &self.transitions,
        ]
        .concat()
    }
}

/// Returns `bytes` compressed by zstd, after their size.
pub(crate) fn compressed(bytes: &[u8]) -> Vec<u8> {
    let stream = zstd::bulk::compress(bytes, 3).unwrap();
    [&varint_of(bytes.len() as u64), &stream[..]].concat()
}

/// Returns the data of a transposed chunk, compressed by zstd, with these stored buckets.
pub(crate) fn compressed_chunk(header: &[u8], buckets: &[Vec<u8>], transitions: &[u8]) -> Vec<u8> {
    let header = compressed(header);
    [
        b"z",
        &varint_of(header.len() as u64)[..],
        &header,
        &buckets.concat(),
        &compressed(transitions),
    ]
    .concat()
}

type Change = fn(&mut Machine);

#[test]
fn transposed_chunks_that_contradict_themselves() {
    let data = Machine::raw().encode();
    let records = read(&Frame::new(b't', 2, 3, &data)).unwrap();
    assert_eq!(records, [&b"b"[..], b"aa"]);
    let data = Machine::nested().encode();
    let message = b"\x08\x05\x12\x03\x08\xac\x02";
    let records = read(&Frame::new(b't', 1, 7, &data)).unwrap();
    assert_eq!(records, [&message[..]]);

    let raw: &[(&str, Change)] = &[
        ("buffers without buckets", |m| m.buckets.clear()),
        ("a bucket too many", |m| m.buckets.push(b"x".to_vec())),
        ("a buffer larger than its bucket", |m| m.buffers[0] = 4),
        ("a huge buffer", |m| m.buffers[0] = u64::MAX),
        ("a buffer that is right in 32 bits", |m| {
            m.buffers[0] = 1 << 32 | 3
        }),
        ("a first state that is right in 32 bits", |m| {
            m.first = 1 << 32
        }),
        ("a buffer smaller than its bucket", |m| m.buffers[1] = 1),
        ("a buffer that isn't used", |m| m.buffers.push(0)),
        ("an unknown tag", |m| m.tags[0] = 4),
        ("a tag of wire type 7", |m| m.tags[0] = 1 << 3 | 7),
        ("a tag of 33 bits", |m| m.tags[0] = 1 << 32 | 1),
        ("a state beyond the last", |m| m.next[0] = 2),
        ("a first state beyond the last", |m| m.first = 1),
        ("no states", |m| {
            m.tags.clear();
            m.next.clear();
            m.state_buffers.clear();
        }),
        ("a buffer beyond the last", |m| m.state_buffers[0] = 2),
        ("no buffer for a state", |m| m.state_buffers.clear()),
        ("a state that leads to itself", |m| m.next[0] = 1),
        ("a transition out of the machine", |m| m.transitions[0] = 4),
        ("more records than claimed", |m| m.transitions.push(0)),
        ("fewer records than claimed", |m| m.transitions.clear()),
        ("lengths that are missing", |m| {
            m.buckets[0].pop();
            m.buffers[1] = 1;
        }),
        ("lengths that end in the middle", |m| m.buckets[0][4] = 0x81),
        ("a length of 33 bits", |m| {
            m.buckets[0].truncate(4);
            m.buckets[0].extend(varint_of(1 << 32 | 1));
            m.buffers[1] = 6;
        }),
        ("lengths beyond the buffer", |m| m.buckets[0][4] = 2),
        ("bytes that nobody takes", |m| m.buckets[0][4] = 0),
    ];
    for (what, change) in raw {
        let mut machine = Machine::raw();
        change(&mut machine);
        let data = machine.encode();
        refused(what, &Frame::new(b't', 2, 3, &data), ErrorKind::Corrupt, "");
    }
    let nested: &[(&str, Change)] = &[
        ("a kind of varint above 137", |m| m.kinds[1] = 138),
        ("no kinds of varints", |m| m.kinds.clear()),
        ("a varint longer than its buffer", |m| m.kinds[0] = 2),
        ("a submessage that begins and didn't end", |m| m.first = 1),
        ("a record inside a submessage", |m| m.next[1] = 5 + 4),
        ("a record that never begins", |m| m.next[3] = 3),
        ("states in a circle", |m| m.next[3] = 5),
        ("a submessage in a record that has ended", |m| {
            m.transitions = vec![8];
        }),
    ];
    for (what, change) in nested {
        let mut machine = Machine::nested();
        change(&mut machine);
        let data = machine.encode();
        refused(what, &Frame::new(b't', 1, 7, &data), ErrorKind::Corrupt, "");
    }
    let data = Machine::across().encode();
    let frame = Frame::new(b't', 2, 7, &data);
    refused(
        "a submessage of two records",
        &frame,
        ErrorKind::Corrupt,
        "a record begins inside a message",
    );
    for (what, num_records, decoded) in [
        ("no records", 0, 7),
        ("more records", 2, 7),
        ("a smaller size", 1, 6),
        ("a larger size", 1, 8),
    ] {
        let data = Machine::nested().encode();
        let frame = Frame::new(b't', num_records, decoded, &data);
        refused(what, &frame, ErrorKind::Corrupt, "");
    }
    // A size that no memory can hold exceeds a limit before memory is allocated.
    let data = Machine::nested().encode();
    let frame = Frame::new(b't', 1, u64::MAX, &data);
    refused(
        "a huge size",
        &frame,
        ErrorKind::LimitExceeded,
        "max_chunk_memory",
    );
}

#[test]
fn headers_of_transposed_chunks_that_are_none() {
    let machine = Machine::raw();
    let whole = machine.encode();
    let header = &whole[2..2 + usize::from(whole[1])];
    let huge = varint_of(u64::from(u32::MAX));
    let mut headers: Vec<Vec<u8>> = (0..header.len())
        .map(|cut| header[..cut].to_vec())
        .collect();
    headers.extend([
        [header, b"\0"].concat(),
        // There are more buckets, buffers and states than the data has room for.
        [&huge, &header[1..]].concat(),
        [&header[..1], &huge, &header[2..]].concat(),
        [&header[..5], &huge, &header[6..]].concat(),
        [&[0xff; 10][..], header].concat(),
    ]);
    for header in headers {
        let data = machine.around(&header);
        let frame = Frame::new(b't', 2, 3, &data);
        refused("a header", &frame, ErrorKind::Corrupt, "transposed chunk");
    }
    for (data, kind) in [
        (&b""[..], ErrorKind::Corrupt),
        (b"\0", ErrorKind::Corrupt),
        (b"\0\x05ab", ErrorKind::Corrupt),
        (
            &[
                0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
            ],
            ErrorKind::Corrupt,
        ),
        (b"?\0", ErrorKind::Unsupported),
    ] {
        refused("a chunk", &Frame::new(b't', 2, 3, data), kind, "");
    }
}

#[test]
fn sizes_that_are_more_than_any_memory_together_are_refused() {
    // The chunk has buckets that consist only of their sizes, with one buffer each, and the state
    // for records that are not messages.
    for sizes in [
        &[1 << 63, 1 << 63][..],
        &[u64::MAX, 1],
        &[1, u64::MAX],
        &[1 << 63, 1 << 63, 7],
        &[1 << 31, 1 << 31, 1],
        &[u64::MAX],
    ] {
        let buckets: Vec<_> = sizes.iter().copied().map(varint_of).collect();
        let lens = buckets.iter().map(|bucket| bucket.len() as u64);
        let count = sizes.len() as u64;
        let mut header = Vec::new();
        [count, count]
            .into_iter()
            .chain(lens)
            .chain(sizes.iter().copied())
            .chain([1, 1, 0, 0, 0])
            .for_each(|value| frame::varint(&mut header, value));
        let data = compressed_chunk(&header, &buckets, b"\0");
        let frame = Frame::new(b't', 2, 3, &data);
        let what = format!("buckets of {sizes:?}");
        refused(&what, &frame, ErrorKind::LimitExceeded, "memory");
        let bytes = frame::file(&[frame]);
        let unlimited = ReaderOptions::new().max_chunk_memory(u64::MAX);
        let mut reader = RecordReader::new(bytes, unlimited);
        assert!(reader.read_record().is_err(), "{what}");
    }
}

#[test]
fn projection_finds_the_same_faults_in_what_it_looks_at() {
    // The projection contains both fields of the message, so that the decoder must decide about
    // each field.
    let projection = FieldProjection::none().field(&[1]).field(&[2]);
    let project = |num_records: u64, data: &[u8]| {
        let bytes = frame::file(&[Frame::new(b't', num_records, 7, data)]);
        let file = RecordFile::open(bytes, ReaderOptions::new())?
            .with_field_projection(projection.clone());
        let chunk = file.read_chunk(ChunkOffset(BEGIN))?;
        Ok::<_, Error>(chunk.record(0).unwrap_or_default().to_vec())
    };
    let good = Machine::nested().encode();
    assert_eq!(project(1, &good).unwrap(), b"\x08\x05\x12\x03\x08\xac\x02");
    for change in [
        |m: &mut Machine| m.next[1] = 5 + 4,
        |m: &mut Machine| m.first = 1,
        |m: &mut Machine| m.next[3] = 3,
        |m: &mut Machine| m.kinds[0] = 2,
        |m: &mut Machine| m.transitions = vec![8],
    ] {
        let mut machine = Machine::nested();
        change(&mut machine);
        let error = project(1, &machine.encode()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
    let error = project(2, &Machine::across().encode()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a record begins inside a message"),
        "{error}"
    );
    for (claimed, fault) in [(0, "more"), (2, "fewer")] {
        let error = project(claimed, &good).unwrap_err();
        let said = format!("{fault} records than it claims");
        assert!(error.to_string().contains(&said), "{error}");
    }
}

/// Returns a machine in which one state represents both a field in a group and the same field
/// outside the group. If `group_first` is set, the group is before the field outside the group.
fn aliased(group_first: bool) -> Machine {
    let implicit = |state: u64| 4 + state;
    let (field, end, start, message) = (0, 1, 2, 3);
    let next = if group_first {
        // The states emit the field, the end of the group, the field again, and the beginning of
        // the group.
        vec![end, implicit(field), implicit(message), 0]
    } else {
        vec![start, implicit(field), implicit(field), 0]
    };
    Machine {
        buckets: vec![],
        buffers: vec![],
        tags: vec![1 << 3, 2 << 3 | 4, 2 << 3 | 3, 3],
        next,
        kinds: vec![10 + 5],
        state_buffers: vec![],
        first: if group_first { field } else { end },
        // The transitions lead to the first of two states that follow the field, and then to the
        // second.
        transitions: vec![0, 1 << 2],
    }
}

#[test]
fn a_state_that_stands_for_two_fields_is_wanted_by_where_it_is_met() {
    let (field, group) = (b"\x08\x05", b"\x13\x08\x05\x14");
    let none = FieldProjection::none;
    for group_first in [false, true] {
        let data = aliased(group_first).encode();
        let frame = Frame::new(b't', 1, 6, &data);
        let both = if group_first {
            [&group[..], field].concat()
        } else {
            [&field[..], group].concat()
        };
        assert_eq!(read(&frame).unwrap(), std::slice::from_ref(&both));
        let bytes = frame::file(&[frame]);
        for (projection, expected) in [
            (none().field(&[1]), &field[..]),
            (none().field(&[2]), group),
            (none().field(&[2, 1]), group),
            (none().field(&[1]).field(&[2, 1]), &both),
            (none().existence(&[2]), b"\x13\x14"),
            (none(), b""),
        ] {
            let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
            reader.set_field_projection(projection.clone());
            let record = reader.read_record().unwrap();
            assert_eq!(record, Some(expected), "{projection:?} {group_first}");
        }
    }
}

#[test]
fn long_chains_of_states_without_output_take_no_time() {
    const STATES: u64 = 20_000;
    let implicit = |state: u64| STATES + state;
    let no_op = Machine {
        buckets: vec![],
        buffers: vec![],
        tags: vec![0; 20_000],
        next: (1..STATES).map(implicit).chain([0]).collect(),
        kinds: vec![],
        state_buffers: vec![],
        first: 0,
        transitions: vec![3; 1 << 16],
    };
    // Each state emits a field that isn't selected.
    let mut skipped = no_op.clone();
    skipped.tags = vec![2 << 3; 20_000];
    skipped.kinds = vec![10; 20_000];
    for (what, machine) in [("no field", no_op), ("a field", skipped)] {
        let data = machine.encode();
        let bytes = frame::file(&[Frame::new(b't', 1, 1 << 20, &data)]);
        for projection in [FieldProjection::all(), FieldProjection::none().field(&[1])] {
            let began = Instant::now();
            let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
            reader.set_field_projection(projection);
            let error = reader.read_record().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
            assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        }
    }
}

#[test]
fn chains_of_states_without_output_lead_to_the_state_behind_them() {
    let mut machine = Machine::nested();
    // In front of each of the five states is a state that only leads to it, once through another.
    let implicit = |state: u64| 11 + state;
    machine.tags.extend([0; 6]);
    machine.next = vec![6, 7, 8, 9];
    machine
        .next
        .iter_mut()
        .for_each(|next| *next = implicit(*next));
    machine.next.push(0);
    machine.next.extend([0, 1, 2, 10, 4, 3].map(implicit));
    machine.first = 5;
    let data = machine.encode();
    let frame = Frame::new(b't', 1, 7, &data);
    let message = b"\x08\x05\x12\x03\x08\xac\x02";
    assert_eq!(read(&frame).unwrap(), [&message[..]]);
    let bytes = frame::file(&[frame]);
    let mut reader = RecordReader::new(&bytes, ReaderOptions::new());
    reader.set_field_projection(FieldProjection::none().field(&[2]));
    assert_eq!(reader.read_record().unwrap(), Some(&message[2..]));
}
