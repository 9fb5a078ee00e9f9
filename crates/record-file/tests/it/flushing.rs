//! Tests of `push`, `flush` and `sync`, and of writers that failed.
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use record_file::{
    Compression, Error, ErrorKind, ReaderOptions, RecordReader, RecordWriter, SyncData,
    WriterOptions,
};

use crate::support::noise;

/// A call to a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Write,
    Flush,
    Sync,
}

/// A sink that keeps the bytes and calls it receives, and fails on one kind of call.
#[derive(Default, Clone)]
struct Sink {
    bytes: Arc<Mutex<Vec<u8>>>,
    calls: Arc<Mutex<Vec<Call>>>,
    fails: Option<Call>,
}

impl Sink {
    fn failing(call: Call) -> Self {
        Sink {
            fails: Some(call),
            ..Sink::default()
        }
    }

    fn note(&self, call: Call) -> io::Result<()> {
        self.calls.lock().unwrap().push(call);
        match self.fails {
            Some(fails) if fails == call => Err(io::Error::other("broken")),
            _ => Ok(()),
        }
    }

    fn take_calls(&self) -> Vec<Call> {
        let mut calls = std::mem::take(&mut *self.calls.lock().unwrap());
        calls.dedup();
        calls
    }

    fn records(&self) -> usize {
        let bytes = self.bytes.lock().unwrap().clone();
        let mut reader = RecordReader::new(bytes, ReaderOptions::new());
        let mut count = 0;
        while reader.read_record().unwrap().is_some() {
            count += 1;
        }
        count
    }
}

impl Write for Sink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.note(Call::Write)?;
        self.bytes.lock().unwrap().extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.note(Call::Flush)
    }
}

impl SyncData for Sink {
    fn sync_data(&mut self) -> io::Result<()> {
        self.note(Call::Sync)
    }
}

fn options(parallelism: u32) -> WriterOptions {
    WriterOptions::new()
        .compression(Compression::ZSTD)
        .threads(parallelism)
}

type Flush = fn(&mut RecordWriter<Sink>) -> record_file::Result<()>;

#[test]
fn each_flush_goes_one_step_further_than_the_one_before() {
    use Call::{Flush as Flushed, Sync, Write};
    let kinds: [(Flush, &[Call]); 3] = [
        (RecordWriter::push, &[Write]),
        (RecordWriter::flush, &[Write, Flushed]),
        (RecordWriter::sync, &[Write, Flushed, Sync]),
    ];
    for parallelism in [0, 2] {
        let sink = Sink::default();
        let mut writer = RecordWriter::new(sink.clone(), options(parallelism)).unwrap();
        for (count, (flush, calls)) in kinds.into_iter().enumerate() {
            writer.write_record(b"a record").unwrap();
            assert!(sink.take_calls().is_empty(), "written too early");
            flush(&mut writer).unwrap();
            assert_eq!(sink.take_calls(), calls);
            assert_eq!(sink.records(), count + 1);
        }
    }
}

#[test]
fn a_flush_without_new_records_writes_nothing() {
    for parallelism in [0, 2] {
        let sink = Sink::default();
        let mut writer = RecordWriter::new(sink.clone(), options(parallelism)).unwrap();
        writer.sync().unwrap();
        assert_eq!(writer.estimated_size(), 64);
        writer.write_record(b"a record").unwrap();
        writer.sync().unwrap();
        let size = sink.bytes.lock().unwrap().len();
        for _ in 0..2 {
            writer.push().unwrap();
            writer.flush().unwrap();
            writer.sync().unwrap();
        }
        let file = writer.finish().unwrap();
        assert_eq!(file.bytes.lock().unwrap().len(), size);
    }
}

#[test]
fn after_one_failure_everything_fails() {
    for parallelism in [0, 2] {
        for call in [Call::Write, Call::Flush, Call::Sync] {
            let mut writer = RecordWriter::new(Sink::failing(call), options(parallelism)).unwrap();
            writer.write_record(b"a record").unwrap();
            let error = writer.sync().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(error.to_string().contains("broken"), "{error}");
            let errors = [
                writer.write_record(b"").unwrap_err(),
                writer
                    .write_record_alone(b"", Compression::None)
                    .unwrap_err(),
                writer.push().unwrap_err(),
                writer.flush().unwrap_err(),
                writer.sync().unwrap_err(),
                writer.finish().map(|_| ()).unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Closed, "{call:?}");
            }
        }
    }
}

#[test]
fn a_failure_found_by_asking_for_a_position_is_not_lost() {
    type Ask = fn(&mut RecordWriter<Sink>);
    let asks: [Ask; 2] = [
        |writer| assert!(writer.position().numeric() >= 64),
        |writer| assert_eq!(writer.last_position(), None),
    ];
    type Next = fn(RecordWriter<Sink>) -> (Error, Option<RecordWriter<Sink>>);
    let nexts: [Next; 3] = [
        |mut writer| (writer.write_record(b"").unwrap_err(), Some(writer)),
        |mut writer| (writer.push().unwrap_err(), Some(writer)),
        |writer| (writer.finish().map(drop).unwrap_err(), None),
    ];
    for ask in asks {
        for next in nexts {
            let options = options(2).chunk_size(1000);
            let mut writer = RecordWriter::new(Sink::failing(Call::Write), options).unwrap();
            // The records are larger than the buffer, so that a chunk before the last one is
            // written.
            for seed in 0..2 {
                writer.write_record(&noise(300_000, seed)).unwrap();
            }
            ask(&mut writer);
            // A repeated request returns the same position.
            ask(&mut writer);
            let (error, writer) = next(writer);
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(error.to_string().contains("broken"), "{error}");
            if let Some(mut writer) = writer {
                let error = writer.write_record(b"").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Closed);
            }
        }
    }
}
