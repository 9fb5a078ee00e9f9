//! A table of the tensors in a message, which locates each tensor and reads many tensors at once.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use record_file::ReadAt;

use crate::Result;
use crate::message::{MergedMessage, MessageReader};
use crate::progress::Meter;
use crate::tensor::{Location, PlacedTensor, TensorInfo, TensorReader, read_many_into};

/// Number of bytes to read between two checks for cancellation, if the message is in one piece: 32
/// MiB, enough for several reads on each of a few threads.
const STEP: usize = 32 << 20;

/// The source of a message: a file, or an object in a store.
pub(super) type Shared = Arc<dyn ReadAt>;

/// The listed tensors in a message.
#[derive(Debug)]
pub(super) struct TensorTable {
    tensors: Vec<PlacedTensor>,
    /// Index of each tensor in `tensors`, by the tensor's name.
    by_name: HashMap<String, usize>,
    /// Index of each tensor in `tensors`, by the tensor's path.
    by_path: OnceLock<HashMap<String, usize>>,
    /// The message that contains the tensors.
    message: MessageReader,
    /// Index of the tensor after the one that was looked up last. Tensors are usually read in
    /// order.
    next: AtomicUsize,
}

impl TensorTable {
    /// Creates a table of the tensors found in a message.
    pub(super) fn new(tensors: Vec<PlacedTensor>, message: MessageReader) -> TensorTable {
        let mut by_name = HashMap::with_capacity(tensors.len());
        for (at, tensor) in tensors.iter().enumerate() {
            by_name.entry(tensor.info.name.clone()).or_insert(at);
        }
        TensorTable {
            tensors,
            by_name,
            by_path: OnceLock::new(),
            message,
            next: AtomicUsize::new(0),
        }
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = &TensorInfo> {
        self.tensors.iter().map(|tensor| &tensor.info)
    }

    /// Returns the tensor with this name, or else the tensor at this path.
    pub(super) fn named(&self, name: &str) -> Option<&TensorInfo> {
        let at = self.by_name.get(name).or_else(|| self.by_path().get(name));
        Some(&self.tensors.get(*at?)?.info)
    }

    fn by_path(&self) -> &HashMap<String, usize> {
        self.by_path.get_or_init(|| {
            let mut by_path = HashMap::with_capacity(self.tensors.len());
            for (at, tensor) in self.tensors.iter().enumerate() {
                if let Location::Message { text, .. } = &tensor.info.location {
                    by_path.entry(text.clone()).or_insert(at);
                }
            }
            by_path
        })
    }

    /// Returns a tensor with its byte ranges; `None` if the table doesn't contain the tensor.
    pub(super) fn placed(&self, info: &TensorInfo) -> Option<&PlacedTensor> {
        let is_it = |at: usize| self.tensors.get(at).is_some_and(|one| one.info == *info);
        let next = Some(self.next.load(Ordering::Relaxed)).filter(|&next| is_it(next));
        let named = || {
            self.by_name
                .get(&info.name)
                .copied()
                .filter(|&at| is_it(at))
        };
        let at = next.or_else(named)?;
        self.next.store(at + 1, Ordering::Relaxed);
        self.tensors.get(at)
    }

    /// Opens a tensor's elements by their byte range, so that the tensor's path isn't resolved
    /// again.
    pub(super) fn elements(
        &self,
        info: &TensorInfo,
        elements: Range<u64>,
    ) -> TensorReader<'static> {
        let merged = self.message.merged();
        if merged.is_none_or(|merged| !merged.is_whole(&elements)) {
            let message = self.message.clone().into();
            return TensorReader::of_range(info.clone(), message, elements);
        }
        // Whole chunks are streamed. Any other range was handled above, where the checksums of the
        // chunks are compared only once.
        let message = self.message.clone();
        TensorReader::of_parts(info.clone(), move |part, sink| {
            let range = elements.start + part.start..elements.start + part.end;
            message.stream_range(range, sink)
        })
    }

    /// Returns the message that contains the tensors.
    pub(super) fn message(&self) -> &MessageReader {
        &self.message
    }

    /// Reads each tensor whose byte range is known into its buffer, which has the tensor's length.
    /// Returns the other tensors with their buffers.
    pub(super) fn fill<'w, 'b>(
        &self,
        wanted: Vec<(&'w TensorInfo, &'b mut [u8])>,
        threads: Option<NonZeroUsize>,
        meter: &Meter,
    ) -> Result<Vec<(&'w TensorInfo, &'b mut [u8])>> {
        let (mut placed, mut others) = (Vec::new(), Vec::new());
        for (info, buffer) in wanted {
            let elements = self.placed(info).and_then(|one| one.elements.clone());
            match elements {
                Some(place) => placed.push((info, place, buffer)),
                None => others.push((info, buffer)),
            }
        }
        if let Some(merged) = self.message.merged() {
            placed = read_chunks(merged, placed, threads, meter)?;
        }
        read_by_position(&self.message, placed, threads, meter)?;
        Ok(others)
    }
}

/// A tensor, its byte range in the message, and the buffer to fill.
type Placed<'w, 'b> = (&'w TensorInfo, Range<u64>, &'b mut [u8]);

/// Reads those tensors in a file in chunks that make up all or most of their chunks. Each of these
/// chunks is read once for all tensors. Returns the other tensors, which the caller then reads by
/// position. The checksums of their chunks are verified once while the input is open.
fn read_chunks<'w, 'b>(
    merged: &MergedMessage<Shared>,
    placed: Vec<Placed<'w, 'b>>,
    threads: Option<NonZeroUsize>,
    meter: &Meter,
) -> Result<Vec<Placed<'w, 'b>>> {
    let (whole, parts): (Vec<_>, Vec<_>) = placed
        .into_iter()
        .partition(|(_, place, _)| merged.is_whole(place));
    // Parts that make up most of their chunks are read while these chunks are checked.
    let ranges: Vec<Range<u64>> = parts.iter().map(|(_, place, _)| place.clone()).collect();
    let bytes: u64 = parts.iter().map(|(info, ..)| info.bytes).sum();
    let unread = merged.unread_chunks(&ranges);
    let (together, by_one) = if unread > 0 && bytes >= unread / 2 {
        (parts, Vec::new())
    } else {
        (Vec::new(), parts)
    };
    let together = whole.into_iter().chain(together);
    let places = together.map(|(_, place, buffer)| (place, buffer));
    merged.read_parts(places, threads, meter)?;
    // Reading the first byte of each tensor checks the tensor's chunk, before several threads
    // request it.
    for (_, place, _) in by_one.iter().filter(|(_, place, _)| !place.is_empty()) {
        merged.read_exact_at(place.start, &mut [0])?;
    }
    Ok(by_one)
}

fn read_by_position(
    bytes: &dyn ReadAt,
    placed: Vec<Placed<'_, '_>>,
    threads: Option<NonZeroUsize>,
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
                read_many_into(std::mem::take(&mut step), threads)?;
                meter.advance(std::mem::take(&mut filled) as u64)?;
            }
        }
    }
    read_many_into(step, threads)?;
    meter.advance(filled as u64)
}
