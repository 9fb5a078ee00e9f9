//! A benchmark that compares `record-file` with other implementations of its format and with the
//! limits of the machine: `cargo bench --manifest-path crates/record-file-peers/Cargo.toml --bench
//! record_file`.
//!
//! Contenders take turns at the same work, in a shuffled order, after one turn that isn't counted.
//! Contenders that work in memory use buffers that were allocated and touched beforehand. The
//! arguments are `--quick` for small sizes, which only check that everything runs, and the names of
//! the parts to run instead of all parts (`memory`, `zstd`, `messages`, `transposed`, `brotli`,
//! `files`). array_record takes part if `array_record/setup.sh` has installed it.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

mod array_record;
mod contest;
mod limits;
mod sides;

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::time::{Duration, Instant};

use record_file::{Compression, WriterOptions};
use record_file_peers::{Outcome, Settings, records};

use array_record::ArrayRecord;
use contest::{Contest, Turns};

/// The sizes of the workloads.
struct Sizes {
    /// Size of a large record, in bytes.
    record: usize,
    /// Number of large uncompressed records.
    floats: usize,
    /// Number of large compressed records.
    compressed: usize,
    messages: usize,
    /// Number of messages that are compressed with brotli.
    brotli_messages: usize,
    turns: usize,
}

const FULL: Sizes = Sizes {
    record: 16 << 20,
    floats: 64,
    compressed: 32,
    messages: 1_000_000,
    brotli_messages: 100_000,
    turns: 5,
};

const QUICK: Sizes = Sizes {
    record: 1 << 20,
    floats: 8,
    compressed: 4,
    messages: 20_000,
    brotli_messages: 5_000,
    turns: 2,
};

type Part = fn(&Sizes, &mut Turns) -> Outcome<()>;

const PARTS: [(&str, Part); 6] = [
    ("memory", memory),
    ("zstd", zstd),
    ("messages", messages),
    ("transposed", transposed),
    ("brotli", brotli),
    ("files", files),
];

fn main() -> Outcome<()> {
    let mut sizes = FULL;
    let mut wanted = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => sizes = QUICK,
            // Cargo passes this argument.
            "--bench" => {}
            name if PARTS.iter().any(|part| part.0 == name) => wanted.push(argument),
            other => return Err(format!("no part of the benchmark: {other}").into()),
        }
    }
    let mut turns = Turns::new(sizes.turns);
    for (name, part) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            part(&sizes, &mut turns)?;
        }
    }
    Ok(())
}

fn total(records: &[Vec<u8>]) -> u64 {
    records.iter().map(|record| record.len() as u64).sum()
}

/// Allocates memory for a file of `records`, and touches every page in advance.
fn touched(records: &[Vec<u8>]) -> RefCell<Vec<u8>> {
    let len = total(records) + total(records) / 8 + (1 << 20);
    let mut memory = vec![1; usize::try_from(len).unwrap_or(0)];
    memory.clear();
    RefCell::new(memory)
}

/// Takes the vector out of `memory`, and clears it without freeing its memory.
fn emptied(memory: &RefCell<Vec<u8>>) -> Vec<u8> {
    let mut memory = memory.take();
    memory.clear();
    memory
}

/// Adds contenders that write the records with `record-file` and the `riegeli` crate to the same
/// memory.
fn writing<'a>(
    mut contest: Contest<'a>,
    records: &'a [Vec<u8>],
    ours: &[(&str, WriterOptions)],
    theirs: Option<riegeli::WriterOptions>,
    memory: &'a RefCell<Vec<u8>>,
) -> Contest<'a> {
    for (name, options) in ours.iter().cloned() {
        contest = contest.by(name, move || {
            let written = sides::write_ours(records, &options, emptied(memory))?;
            Ok(memory.replace(written).len() as u64)
        });
    }
    match theirs {
        None => contest,
        Some(options) => contest.by("riegeli crate", move || {
            let mut out = memory.borrow_mut();
            out.clear();
            sides::write_theirs(records, &options, &mut *out)?;
            Ok(out.len() as u64)
        }),
    }
}

/// Adds contenders that copy and hash the records.
fn limits<'a>(
    contest: Contest<'a>,
    records: &'a [Vec<u8>],
    place: &'a RefCell<Vec<u8>>,
) -> Contest<'a> {
    contest
        .by("limit: hash and copy", move || {
            Ok(limits::hash_and_copy(records, &mut place.borrow_mut()))
        })
        .by("limit: hash", move || Ok(limits::hash(records)))
        .by("limit: copy", move || {
            Ok(limits::copy(records, &mut place.borrow_mut()))
        })
}

/// Measures uncompressed files of workload (a), and compares them with the `riegeli` crate and with
/// copying and hashing.
fn memory(sizes: &Sizes, turns: &mut Turns) -> Outcome<()> {
    let records = records::floats(sizes.floats, sizes.record);
    let bytes = total(&records);
    let settings = Settings::new(Compression::None);
    let memory = touched(&records);
    let place = RefCell::new(vec![1; usize::try_from(bytes)?]);

    let contest = Contest::new("(a) none, write", bytes);
    let ours = [("record-file", settings.ours())];
    let contest = writing(contest, &records, &ours, Some(settings.theirs()), &memory);
    limits(contest, &records, &place).run(turns)?;

    let file = sides::write_ours(&records, &settings.ours(), emptied(&memory))?;
    let positions = sides::positions(&file)?;
    let into = |threads| {
        let mut place = place.borrow_mut();
        sides::read_into(&file[..], &positions, sizes.record, &mut place, threads)
    };
    let contest = Contest::new("(a) none, read", bytes)
        .by_reading("record-file, into place", || into(1))
        .by_reading("record-file, into place, 2 threads", || into(2))
        .by_reading("record-file, in sequence", || {
            sides::read_ours(&file[..], 0)
        })
        .by_reading("riegeli crate", || sides::read_theirs_of(&file));
    limits(contest, &records, &place).run(turns)
}

/// Measures workloads (a) and (b) with zstd:3, and compares them with the `riegeli` crate and with
/// the codec alone.
fn zstd(sizes: &Sizes, turns: &mut Turns) -> Outcome<()> {
    const LEVEL: i32 = 3;
    let floats = records::floats(sizes.compressed, sizes.record);
    let quantised = records::quantised(&floats);
    let settings = Settings::new(Compression::zstd(LEVEL));
    let ours = [
        ("record-file", settings.ours()),
        ("record-file, 2 threads", settings.ours().threads(2)),
    ];
    for (name, records) in [("(a)", &floats), ("(b)", &quantised)] {
        let bytes = total(records);
        let memory = touched(records);
        let piece = RefCell::new(Vec::with_capacity(2 * sizes.record));
        let pair = RefCell::new([(); 2].map(|()| Vec::with_capacity(2 * sizes.record)));
        let contest = Contest::new(format!("{name} zstd:{LEVEL}, write"), bytes);
        writing(contest, records, &ours, Some(settings.theirs()), &memory)
            .by("limit: zstd and hash", || {
                limits::zstd_compress_and_hash(records, LEVEL, &mut piece.borrow_mut())
            })
            .by("limit: zstd alone", || {
                limits::zstd_compress(records, LEVEL, &mut piece.borrow_mut())
            })
            .by("record-file, seekable", || {
                let sink = std::io::Cursor::new(emptied(&memory));
                let written = sides::write_seekable(records, &settings.ours(), sink)?;
                Ok(memory.replace(written.into_inner()).len() as u64)
            })
            .by("limit: zstd alone, as a stream", || {
                limits::zstd_compress_streamed(records, LEVEL)
            })
            .by("limit: zstd alone, 2 threads", || {
                limits::zstd_compress_on_threads(records, LEVEL, &mut *pair.borrow_mut())
            })
            .run(turns)?;

        let file = sides::write_ours(records, &settings.ours(), emptied(&memory))?;
        let positions = sides::positions(&file)?;
        let pieces = limits::zstd_pieces(records, LEVEL)?;
        let place = RefCell::new(vec![1; usize::try_from(bytes)?]);
        let into = |threads| {
            let mut place = place.borrow_mut();
            sides::read_into(&file[..], &positions, sizes.record, &mut place, threads)
        };
        Contest::new(format!("{name} zstd:{LEVEL}, read"), bytes)
            .by_reading("record-file, into place", || into(1))
            .by_reading("record-file, into place, 2 threads", || into(2))
            .by_reading("record-file, in sequence", || {
                sides::read_ours(&file[..], 0)
            })
            .by_reading("riegeli crate", || sides::read_theirs_of(&file))
            .by_reading("limit: zstd and hash", || {
                limits::hash_and_zstd_decompress(&pieces, &mut piece.borrow_mut())
            })
            .by_reading("limit: zstd alone", || {
                limits::zstd_decompress(&pieces, &mut piece.borrow_mut())
            })
            .by_reading("limit: zstd alone, 2 threads", || {
                limits::zstd_decompress_on_threads(&pieces, &mut *pair.borrow_mut())
            })
            .run(turns)?;
    }
    Ok(())
}

/// Measures writing and reading messages with the given settings.
fn small_records(
    name: &str,
    messages: &[Vec<u8>],
    settings: Settings,
    turns: &mut Turns,
) -> Outcome<()> {
    let bytes = total(messages);
    let memory = touched(messages);
    let ours = [
        ("record-file", settings.ours()),
        ("record-file, 2 threads", settings.ours().threads(2)),
    ];
    // In a transposed chunk, the hashed and compressed bytes aren't the concatenated records.
    // Therefore, no limits are measured, as for snappy.
    let codec = if settings.transpose {
        Compression::SNAPPY
    } else {
        settings.codec
    };
    let plain = sides::write_ours(messages, &sides::plain(), Vec::new())?;
    let values = sides::values(&plain)?;
    let largest = values.iter().map(Vec::len).max().unwrap_or(0);
    let place = RefCell::new(vec![1; usize::try_from(bytes)?]);
    let piece = RefCell::new(Vec::with_capacity(2 * largest + 1024));
    let pair = RefCell::new([(); 2].map(|()| Vec::with_capacity(2 * largest + 1024)));
    let pieces = match codec {
        Compression::Zstd { level, .. } => limits::zstd_pieces(&values, level)?,
        _ => Vec::new(),
    };

    let contest = Contest::new(format!("{name}, write"), bytes);
    let mut contest = writing(contest, messages, &ours, Some(settings.theirs()), &memory);
    match codec {
        Compression::None => contest = limits(contest, &values, &place),
        Compression::Zstd { level, .. } => {
            let (values, piece, pair) = (&values, &piece, &pair);
            contest = contest
                .by("limit: zstd and hash", move || {
                    limits::zstd_compress_and_hash(values, level, &mut piece.borrow_mut())
                })
                .by("limit: zstd alone", move || {
                    limits::zstd_compress(values, level, &mut piece.borrow_mut())
                })
                .by("limit: zstd alone, 2 threads", move || {
                    limits::zstd_compress_on_threads(values, level, &mut *pair.borrow_mut())
                });
        }
        _ => {}
    }
    contest.run(turns)?;

    let file = sides::write_ours(messages, &settings.ours(), emptied(&memory))?;
    let mut contest = Contest::new(format!("{name}, read"), bytes)
        .by_reading("record-file", || sides::read_ours(&file[..], 0))
        .by_reading("record-file, 2 threads", || sides::read_ours(&file[..], 2))
        .by_reading("riegeli crate", || sides::read_theirs_of(&file));
    match codec {
        Compression::None => contest = limits(contest, &values, &place),
        Compression::Zstd { .. } => {
            contest = contest
                .by_reading("limit: zstd and hash", || {
                    limits::hash_and_zstd_decompress(&pieces, &mut piece.borrow_mut())
                })
                .by_reading("limit: zstd alone", || {
                    limits::zstd_decompress(&pieces, &mut piece.borrow_mut())
                })
                .by_reading("limit: zstd alone, 2 threads", || {
                    limits::zstd_decompress_on_threads(&pieces, &mut *pair.borrow_mut())
                });
        }
        _ => {}
    }
    contest.run(turns)
}

/// Measures workload (c) in simple chunks.
fn messages(sizes: &Sizes, turns: &mut Turns) -> Outcome<()> {
    let messages = records::messages(sizes.messages);
    for codec in [Compression::None, Compression::zstd(3), Compression::SNAPPY] {
        let name = format!("(c) {codec}");
        small_records(&name, &messages, Settings::new(codec), turns)?;
    }
    Ok(())
}

/// Measures workload (c) in transposed chunks.
fn transposed(sizes: &Sizes, turns: &mut Turns) -> Outcome<()> {
    let messages = records::messages(sizes.messages);
    for codec in [Compression::None, Compression::zstd(3)] {
        let name = format!("(c) transposed, {codec}");
        let settings = Settings::new(codec).transposed();
        small_records(&name, &messages, settings, turns)?;
    }
    Ok(())
}

/// Measures the available brotli decoders, and files compressed with brotli.
fn brotli(sizes: &Sizes, turns: &mut Turns) -> Outcome<()> {
    const LEVEL: u8 = 6;
    let messages = records::messages(sizes.brotli_messages);
    let plain = sides::write_ours(&messages, &sides::plain(), Vec::new())?;
    let floats = records::floats(1, sizes.record);
    let quantised = records::quantised(&floats);
    for (name, pieces) in [
        ("(a)", floats),
        ("(b)", quantised),
        ("(c)", sides::values(&plain)?),
    ] {
        let largest = pieces.iter().map(Vec::len).max().unwrap_or(0);
        let place = RefCell::new(vec![1; largest + 1024]);
        let bytes = total(&pieces);
        Contest::new(format!("{name} brotli:{LEVEL} alone, compress"), bytes)
            .by("brotlic (C)", || {
                let compressed = limits::brotli_pieces(&pieces, LEVEL)?;
                Ok(total(&compressed))
            })
            .by("brotli crate (Rust)", || {
                limits::brotli_crate_compress(&pieces, LEVEL.into())
            })
            .run(turns)?;
        let compressed = limits::brotli_pieces(&pieces, LEVEL)?;
        Contest::new(format!("{name} brotli:{LEVEL} alone, decompress"), bytes)
            .by_reading("brotlic (C)", || {
                limits::brotli_decompress(&compressed, &mut place.borrow_mut())
            })
            .by_reading("brotli crate (Rust)", || {
                limits::brotli_crate_decompress(&compressed, &mut place.borrow_mut())
            })
            .run(turns)?;
    }
    let settings = Settings::new(Compression::brotli(LEVEL.into()));
    small_records("(c) brotli:6", &messages, settings, turns)
}

/// Measures files in the page cache, which are created again in every turn, and compares them with
/// files of the `riegeli` crate and of array_record.
fn files(sizes: &Sizes, turns: &mut Turns) -> Outcome<()> {
    // The folder is in target/, so it is on the disk used for builds.
    let folder = tempfile::tempdir_in(std::env::current_exe()?.parent().ok_or("a folder")?)?;
    let array_record = ArrayRecord::start(folder.path())?.map(RefCell::new);
    if array_record.is_none() {
        eprintln!("array_record doesn't take part: it isn't installed, see array_record/setup.sh");
    }
    let floats = records::floats(sizes.floats, sizes.record);
    let run =
        |name: &str, records: &[Vec<u8>], codec: Compression, group: &str, turns: &mut Turns| {
            let compression = match codec {
                Compression::None => "uncompressed".to_owned(),
                codec => codec.to_string(),
            };
            let options = format!("group_size:{group},{compression}");
            let name = format!("{name} {codec}");
            file_contests(
                &name,
                records,
                codec,
                array_record.as_ref(),
                &options,
                folder.path(),
                turns,
            )
        };
    run("(a)", &floats, Compression::None, "1", turns)?;
    let some = &floats[..sizes.compressed.min(floats.len())];
    run("(a)", some, Compression::zstd(3), "1", turns)?;
    drop(floats);
    let messages = records::messages(sizes.messages);
    // 6500 messages have about 1 MiB, the size of the other contenders' chunks.
    for codec in [Compression::None, Compression::zstd(3)] {
        run("(c)", &messages, codec, "6500", turns)?;
    }
    Ok(())
}

fn file_contests(
    name: &str,
    records: &[Vec<u8>],
    codec: Compression,
    array_record: Option<&RefCell<ArrayRecord>>,
    group: &str,
    folder: &Path,
    turns: &mut Turns,
) -> Outcome<()> {
    const BUFFER: usize = 1 << 20;
    let bytes = total(records);
    let settings = Settings::new(codec);
    let path = |name: &str| folder.join(name);
    let large = records.len() < 1000;
    // Every turn writes a new file, with new pages. Freeing the previous file's pages takes as long
    // as writing them, so the time for freeing them isn't counted.
    let timed = |name: &str, write: &dyn Fn(File) -> Outcome<()>| -> Outcome<Duration> {
        let path = path(name);
        let _ = fs::remove_file(&path);
        let start = Instant::now();
        write(File::create(path)?)?;
        Ok(start.elapsed())
    };
    let ours = |options: &WriterOptions| {
        timed("ours", &|file| {
            sides::write_seekable(records, options, file).map(drop)
        })
    };
    let mut contest = Contest::new(format!("{name}, to a file"), bytes)
        .by_other("record-file", || ours(&settings.ours()))
        .by_other("record-file, 2 threads", || {
            ours(&settings.ours().threads(2))
        });
    contest = contest.by_other("riegeli crate", || {
        timed("theirs", &|file| {
            let out = BufWriter::with_capacity(BUFFER, file);
            sides::write_theirs(records, &settings.theirs(), out)
        })
    });
    if let Some(peer) = array_record {
        peer.borrow_mut().load(records)?;
        contest = contest.by_other("array_record", || {
            let _ = fs::remove_file(path("array_record"));
            peer.borrow_mut().write(&path("array_record"), group)
        });
    }
    contest.run(turns)?;

    let place = RefCell::new(vec![1; if large { usize::try_from(bytes)? } else { 0 }]);
    let positions = if large {
        sides::positions(&fs::read(path("ours"))?)?
    } else {
        Vec::new()
    };
    let open = |name: &str| -> Outcome<File> { Ok(File::open(path(name))?) };
    let size = records.first().map_or(1, Vec::len);
    let mut contest = Contest::new(format!("{name}, from a file"), bytes);
    if large {
        for (name, threads) in [
            ("record-file, into place", 1),
            ("record-file, into place, 2 threads", 2),
        ] {
            let (place, positions) = (&place, &positions);
            contest = contest.by_reading(name, move || {
                let mut place = place.borrow_mut();
                sides::read_into(open("ours")?, positions, size, &mut place, threads)
            });
        }
    }
    contest = contest
        .by_reading("record-file, in sequence", || {
            sides::read_ours(open("ours")?, 0)
        })
        .by_reading("record-file, in sequence, 2 threads", || {
            sides::read_ours(open("ours")?, 2)
        })
        .by_reading("riegeli crate", || sides::read_theirs(open("theirs")?));
    if let Some(peer) = array_record {
        for (name, options) in [
            ("array_record", "readahead_buffer_size:0"),
            ("array_record, readahead", ""),
        ] {
            contest = contest.by_other(name, move || {
                let file = folder.join("array_record");
                peer.borrow_mut().read(&file, options, "each")
            });
        }
        contest = contest.by_other("array_record, read_all", || {
            let file = path("array_record");
            peer.borrow_mut().read(&file, "", "all")
        });
    }
    contest.run(turns)
}
