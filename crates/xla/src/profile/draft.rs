//! Dividing a profile into records from which XProf restores the same profile.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use proto_splitter_core::atomic::{AtomicFile, MadeFrom};
use proto_splitter_core::formats::ConvertOptions;
use proto_splitter_core::spans::{SourceId, SpanList, SpanSource};
use proto_splitter_core::{Error, ErrorKind, Result, threads};
use record_file::{Compression, ReadAt, RecordWriter, WriterOptions};

use super::events::MAX_RUN;
use super::fields::ProfileReader;
use super::plane::{Line, Plane};
use crate::write::{MAX_MERGE_RECORD, RecordBytes, field};

/// The compression that the profiler's own writer uses.
const BROTLI: Compression = Compression::brotli(6);

/// Alignment to which the end of a file is padded: 64 KiB.
const PADDING: u64 = 64 << 10;

/// A plan that divides a profile into records. The first record contains everything except the
/// lines of planes. Each other record contains one line, with either all of the line's events or a
/// consecutive part of them.
///
/// XProf merges planes with the same name, and lines with the same id. If merging would change a
/// plane, the whole plane, including its lines, stays in the first record, which XProf keeps
/// unchanged.
///
/// ```
/// use std::sync::Arc;
///
/// use proto_splitter_xla::ProfileDraft;
///
/// // A plane "p" with the lines 1 and 2.
/// let profile = b"\x0a\x0b\x12\x01p\x1a\x02\x08\x01\x1a\x02\x08\x02".to_vec();
/// assert_eq!(ProfileDraft::new(Arc::new(profile))?.record_count(), 3);
/// # Ok::<(), proto_splitter_core::Error>(())
/// ```
pub struct ProfileDraft {
    message: Arc<dyn ReadAt>,
    records: Vec<SpanList>,
}

impl std::fmt::Debug for ProfileDraft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProfileDraft")
            .field("records", &self.records.len())
            .finish_non_exhaustive()
    }
}

impl ProfileDraft {
    /// Plans the records for a profile that is a single message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Uncuttable`] if a part that can't be divided is larger than a message can be;
    /// [`ErrorKind::InvalidMessage`] if the profile violates the wire format.
    pub fn new(message: Arc<dyn ReadAt>) -> Result<ProfileDraft> {
        let size = message.size()?;
        let mut reader = ProfileReader::new(&*message)?;
        let fields = reader.fields(0..size)?;
        let mut names: HashMap<Vec<u8>, usize> = HashMap::new();
        let (mut planes, mut rest) = (Vec::new(), SpanList::default());
        for found in fields {
            if !found.is_len(1) {
                rest.push_span(reader.source(), found.start..found.end);
                continue;
            }
            let plane = Plane::read(&mut reader, found.value)?;
            *names.entry(plane.name.clone()).or_default() += 1;
            planes.push(plane);
        }
        let (mut first, mut lines) = (SpanList::default(), Vec::new());
        for plane in &planes {
            // A plane is only divided if merging its records would restore its bytes.
            let comes_back = same(&*message, &plane.whole(reader.source()), &plane.as_it_is)?;
            if comes_back && plane.has_unique_lines() && names.get(&plane.name) == Some(&1) {
                let mut inside = plane.head.clone();
                inside.append(&plane.rest);
                field(&mut first, 1, &inside);
                for line in &plane.lines {
                    cut_line(plane, line, reader.source(), &mut lines)?;
                }
            } else {
                field(&mut first, 1, &plane.as_it_is);
            }
        }
        first.append(&rest);
        check(&first, "everything except the lines of the planes")?;
        let mut records = vec![first];
        records.append(&mut lines);
        drop(reader);
        Ok(ProfileDraft { message, records })
    }

    /// Returns the number of planned records.
    pub fn record_count(&self) -> usize {
        self.records.len()
    }

    /// Writes the records to a file, atomically. Returns the file's size in bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::AlreadyExists`]; [`ErrorKind::InvalidConfig`] if the target is the file from
    /// which the profile is read, or brotli is disabled in this build; [`ErrorKind::Io`];
    /// [`ErrorKind::Cancelled`].
    pub fn write_file(
        &self,
        target: impl AsRef<Path>,
        made_from: &MadeFrom,
        options: &ConvertOptions,
    ) -> Result<u64> {
        let file = AtomicFile::create(target, made_from, options.get_force())?;
        let threads = u32::try_from(threads::count(options.get_threads()).get()).unwrap_or(1);
        let settings = WriterOptions::new()
            .compression(BROTLI)
            .final_padding(PADDING)
            .threads(threads);
        let meter = options.get_progress().meter(self.message.size()?);
        file.write(|mut sink| {
            let mut writer = RecordWriter::new(&mut sink, settings)?;
            let mut buffer = Vec::new();
            for record in &self.records {
                let mut bytes = RecordBytes::new(&*self.message, record, &meter);
                if record.len() > 2 * MAX_RUN {
                    writer.write_record_from(&mut bytes, record.len(), BROTLI)?;
                    continue;
                }
                buffer.clear();
                bytes.read_to_end(&mut buffer)?;
                writer.write_record(&buffer)?;
            }
            writer.finish()?.flush()?;
            Ok(sink.stream_position()?)
        })
    }
}

/// Adds the records for a line. Each has the id and name of the line's plane, the line's own
/// fields, and the next events, up to a size limit.
fn cut_line(
    plane: &Plane,
    line: &Line,
    source: SourceId,
    records: &mut Vec<SpanList>,
) -> Result<()> {
    let mut add = |events: &SpanList| {
        let mut inside = plane.head.clone();
        field(&mut inside, 3, &line.with(events));
        let mut record = SpanList::default();
        field(&mut record, 1, &inside);
        check(&record, "an event of a line, with the line's own fields,")?;
        records.push(record);
        Ok(())
    };
    let mut events = SpanList::default();
    for run in line.runs() {
        let len = run.end - run.start;
        if !events.is_empty() && events.len() + len > MAX_RUN {
            add(&std::mem::take(&mut events))?;
        }
        events.push_span(source, run.clone());
    }
    add(&events)
}

fn check(record: &SpanList, what: &str) -> Result<()> {
    if record.len() <= MAX_MERGE_RECORD {
        return Ok(());
    }
    let message = format!(
        "{what} has {} bytes, more than a message can have",
        record.len()
    );
    Err(Error::new(ErrorKind::Uncuttable, message))
}

/// Returns true if `made` has the same bytes as `there`, which is a contiguous range of `message`.
/// If `made` refers to a range of `message`, this range counts as equal only if it is at its
/// original position, so its bytes needn't be read. The literal spans of `made` are compared byte
/// by byte.
fn same(message: &dyn ReadAt, made: &SpanList, there: &SpanList) -> Result<bool> {
    if made.len() != there.len() {
        return Ok(false);
    }
    let begin = match there.get(0).map(|span| span.source) {
        Some(SpanSource::Stored(_, at)) => at,
        _ => return Ok(made.is_empty()),
    };
    for span in made.iter() {
        let place = begin + span.offset;
        match span.source {
            SpanSource::Stored(_, at) if at == place => {}
            SpanSource::Stored(..) => return Ok(false),
            SpanSource::Literal(bytes) => {
                let mut found = vec![0; bytes.len()];
                message.read_exact_at(place, &mut found)?;
                if found != bytes {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}
