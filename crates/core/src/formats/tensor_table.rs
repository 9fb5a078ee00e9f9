//! The tensors of an input that is open: where each is, and reading many at once.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use record_file::ReadAt;

use super::Opened;
use crate::container::ChunkedFile;
use crate::merged_message::MergedMessage;
use crate::progress::{Meter, Progress};
use crate::tensor::{PlacedTensor, PlacedTensors, TensorInfo, TensorReader, fill_together};
use crate::{Error, ErrorKind, Result};

/// How much is read of a message in one piece between two looks at whether to go on: 32 MiB, which
/// are several loads for each of a few threads.
const STEP: usize = 32 << 20;

/// The tensors of a message, as they were listed.
#[derive(Debug)]
pub(super) struct TensorTable {
    tensors: Vec<TensorInfo>,
    /// Which bytes of the message each is, if it is in one piece there.
    places: Vec<Option<Range<u64>>>,
    by_name: HashMap<String, usize>,
    /// The message, merged, if it is in chunks: what the places are counted in.
    merged: Option<Arc<MergedMessage>>,
}

impl TensorTable {
    /// What was found in a message, and the file in chunks that it is in, if it is.
    pub(super) fn new(found: PlacedTensors, file: Option<Arc<ChunkedFile>>) -> TensorTable {
        let merged = file.zip(found.plan);
        let merged = merged.map(|(file, plan)| Arc::new(MergedMessage::planned(file, plan)));
        let mut by_name = HashMap::with_capacity(found.tensors.len());
        let (mut tensors, mut places) = (Vec::new(), Vec::new());
        for (at, PlacedTensor { info, place }) in found.tensors.into_iter().enumerate() {
            by_name.entry(info.name.clone()).or_insert(at);
            tensors.push(info);
            places.push(place);
        }
        TensorTable {
            tensors,
            places,
            by_name,
            merged,
        }
    }

    pub(super) fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Where a tensor is, if it is one of these and in one piece.
    fn place(&self, info: &TensorInfo) -> Option<Range<u64>> {
        let at = *self.by_name.get(&info.name)?;
        let same = self.tensors.get(at).is_some_and(|known| known == info);
        self.places.get(at).cloned().flatten().filter(|_| same)
    }
}

/// Reading tensors of a message where they stand in one piece.
impl Opened {
    /// The file whose bytes a tensor's elements are, and which: where they stand there as they are in
    /// memory, in one piece, and no checksum covers them. So whoever maps the file has the tensor
    /// without a copy. None for any other tensor, as of a file in chunks.
    ///
    /// Tensors have to be [listed](Opened::tensors) before.
    ///
    /// ```
    /// use proto_splitter_core::formats::{OpenOptions, Registry};
    /// use proto_splitter_core::tensor::{DType, TensorInfo};
    ///
    /// static FORMATS: Registry = Registry::new(&[]);
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("plain.pb");
    /// std::fs::write(&path, b"\x0a\x01a")?;
    /// let opened = FORMATS.open(&path, &OpenOptions::new())?;
    /// // Nothing is known of its type, and so of no tensor.
    /// assert!(opened.tensors()?.is_empty());
    /// let other = TensorInfo::new("a", DType::U8, vec![1]);
    /// assert_eq!(opened.tensor_in_file(&other), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tensor_in_file(&self, info: &TensorInfo) -> Option<(&Path, Range<u64>)> {
        let place = self.table()?.place(info)?;
        Some((self.message_file()?, place))
    }

    /// Reads tensors, each to a buffer of its [bytes](TensorInfo::bytes), in less time than one after
    /// the other: on several threads, and each chunk of a file in chunks once.
    ///
    /// ```
    /// use proto_splitter_core::formats::{OpenOptions, Registry};
    /// use proto_splitter_core::progress::Progress;
    ///
    /// static FORMATS: Registry = Registry::new(&[]);
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("plain.pb");
    /// std::fs::write(&path, b"\x0a\x01a")?;
    /// let opened = FORMATS.open(&path, &OpenOptions::new())?;
    /// opened.read_tensors_into(Vec::new(), &Progress::default())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if a buffer has another length; what
    /// [`read_tensor`](Opened::read_tensor) reports. Then some buffers may have been filled.
    pub fn read_tensors_into(
        &self,
        wanted: Vec<(&TensorInfo, &mut [u8])>,
        progress: &Progress,
    ) -> Result<()> {
        let mut total = 0u64;
        for (info, buffer) in &wanted {
            if buffer.len() as u64 != info.bytes {
                let (have, bytes) = (buffer.len(), info.bytes);
                let message = format!("a buffer of {have} bytes for a tensor of {bytes}");
                let error = Error::new(ErrorKind::InvalidConfig, message);
                return Err(error.context(format!("tensor {:?}", info.name)));
            }
            total = total.saturating_add(info.bytes);
        }
        let meter = progress.meter(total);
        let (mut placed, mut others) = (Vec::new(), Vec::new());
        for (info, buffer) in wanted {
            match self.table().and_then(|table| table.place(info)) {
                Some(place) => placed.push((info, place, buffer)),
                None => others.push((info, buffer)),
            }
        }
        let merged = self.table().and_then(|table| table.merged.as_ref());
        match (self.plain(), merged) {
            (Some((bytes, _)), _) => read_plain(&**bytes, placed, self.threads(), &meter)?,
            (None, Some(merged)) => self.read_chunks(merged, placed, &meter)?,
            // Places are of one or the other.
            (None, None) => others.extend(placed.into_iter().map(|(info, _, to)| (info, to))),
        }
        for (info, mut buffer) in others {
            let reader = self.read_tensor(info)?;
            reader.write_to(&mut meter.written_to(&mut buffer))?;
        }
        meter.check()
    }

    /// A tensor by where it is, so that the path to it isn't followed again; none if that isn't known,
    /// or it is better read by its path.
    pub(super) fn placed_reader(&self, info: &TensorInfo) -> Option<TensorReader<'_>> {
        let place = self.table()?.place(info)?;
        if let Some((bytes, _)) = self.plain() {
            let bytes = Arc::clone(bytes);
            return Some(TensorReader::of_range(info.clone(), bytes, place));
        }
        let merged = self.table()?.merged.as_ref()?;
        // A chunk by itself is streamed; of one that holds more the checksums are compared once.
        if merged.whole_chunks(&place).is_some() {
            return None;
        }
        let bytes = Arc::clone(merged) as Arc<dyn ReadAt>;
        Some(TensorReader::of_range(info.clone(), bytes, place))
    }

    /// Reads tensors of a file in chunks. Chunks that are read whole, or nearly, are read once for all
    /// of them; of others the checksums are compared once for as long as the input is open.
    fn read_chunks(
        &self,
        merged: &MergedMessage,
        placed: Vec<Placed<'_, '_>>,
        meter: &Meter,
    ) -> Result<()> {
        let (whole, parts): (Vec<_>, Vec<_>) = placed
            .into_iter()
            .partition(|(_, place, _)| merged.whole_chunks(place).is_some());
        // Parts that are most of their chunks are read along with these chunks' checks.
        let ranges: Vec<Range<u64>> = parts.iter().map(|(_, place, _)| place.clone()).collect();
        let bytes: u64 = parts.iter().map(|(info, ..)| info.bytes).sum();
        let unread = merged.unread_chunks(&ranges);
        let (together, by_one) = match unread > 0 && bytes >= unread / 2 {
            true => (parts, Vec::new()),
            false => (Vec::new(), parts),
        };
        let together = whole.into_iter().chain(together);
        let places = together.map(|(_, place, buffer)| (place, buffer));
        merged.read_parts(places, self.threads(), meter)?;
        // The first byte of each has its chunk checked, before several threads ask for it.
        for (_, place, _) in by_one.iter().filter(|(_, place, _)| !place.is_empty()) {
            merged.read_exact_at(place.start, &mut [0])?;
        }
        read_plain(merged, by_one, self.threads(), meter)
    }
}

/// A tensor, where it is in the message, and where it goes.
type Placed<'w, 'b> = (&'w TensorInfo, Range<u64>, &'b mut [u8]);

fn read_plain(
    bytes: &dyn ReadAt,
    placed: Vec<Placed<'_, '_>>,
    threads: Option<std::num::NonZeroUsize>,
    meter: &Meter,
) -> Result<()> {
    let (mut step, mut filled) = (Vec::new(), 0);
    for (_, place, buffer) in placed {
        let mut at = place.start;
        for part in buffer.chunks_mut(STEP) {
            let len = part.len();
            step.push((bytes, at, part));
            (at, filled) = (at + len as u64, filled + len);
            if filled >= STEP {
                fill_together(std::mem::take(&mut step), threads)?;
                meter.advance(std::mem::take(&mut filled) as u64)?;
            }
        }
    }
    fill_together(step, threads)?;
    meter.advance(filled as u64)
}
