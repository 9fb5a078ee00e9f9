//! The tensors of a message: where each is, and reading many at once.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use record_file::ReadAt;

use crate::Result;
use crate::merged_message::MergedMessage;
use crate::progress::Meter;
use crate::tensor::{Location, PlacedTensor, TensorInfo, TensorReader, fill_together};

/// How much is read of a message in one piece between two looks at whether to go on: 32 MiB, which
/// are several loads for each of a few threads.
const STEP: usize = 32 << 20;

/// What a message is read from: a file, or an object in a store.
pub(super) type Shared = Arc<dyn ReadAt>;

/// A message by position: what the places of tensors are counted in.
#[derive(Clone)]
pub(super) enum Whole {
    Plain(Shared),
    Merged(Arc<MergedMessage<Shared>>),
}

// By hand: not every source has a `Debug`.
impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Whole::Plain(_) => f.write_str("Plain"),
            Whole::Merged(merged) => f.debug_tuple("Merged").field(merged).finish(),
        }
    }
}

impl Whole {
    pub(super) fn reader(&self) -> Shared {
        match self {
            Whole::Plain(bytes) => Arc::clone(bytes),
            Whole::Merged(merged) => Arc::clone(merged) as Shared,
        }
    }
}

impl Default for Whole {
    fn default() -> Self {
        Whole::Plain(Arc::new(b""))
    }
}

/// The tensors of a message, as they were listed.
#[derive(Debug, Default)]
pub(super) struct TensorTable {
    tensors: Vec<PlacedTensor>,
    /// By name; by path where no tensor has that name.
    by_name: HashMap<String, usize>,
    whole: Whole,
}

impl TensorTable {
    /// The tensors that were found in a message.
    pub(super) fn new(tensors: Vec<PlacedTensor>, whole: Whole) -> TensorTable {
        let mut by_name = HashMap::with_capacity(2 * tensors.len());
        for (at, tensor) in tensors.iter().enumerate() {
            by_name.entry(tensor.info.name.clone()).or_insert(at);
        }
        for (at, tensor) in tensors.iter().enumerate() {
            if let Location::Message { text, .. } = &tensor.info.location
                && !by_name.contains_key(text)
            {
                by_name.insert(text.clone(), at);
            }
        }
        TensorTable {
            tensors,
            by_name,
            whole,
        }
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = &TensorInfo> {
        self.tensors.iter().map(|tensor| &tensor.info)
    }

    /// The tensor with this name, or else at this path.
    pub(super) fn named(&self, name: &str) -> Option<&TensorInfo> {
        let tensor = self.tensors.get(*self.by_name.get(name)?)?;
        Some(&tensor.info)
    }

    /// A tensor with its places, if it is one of these.
    pub(super) fn placed(&self, info: &TensorInfo) -> Option<&PlacedTensor> {
        let tensor = self.tensors.get(*self.by_name.get(&info.name)?)?;
        (tensor.info == *info).then_some(tensor)
    }

    /// The elements of a tensor, by their range, so that the path to it isn't followed again.
    pub(super) fn elements(
        &self,
        info: &TensorInfo,
        elements: Range<u64>,
    ) -> TensorReader<'static> {
        match &self.whole {
            // A chunk by itself is streamed; of one that holds more the checksums are compared once.
            Whole::Merged(merged) if merged.whole_chunks(&elements).is_some() => {
                let merged = Arc::clone(merged);
                TensorReader::of_parts(info.clone(), move |part, sink| {
                    let range = elements.start + part.start..elements.start + part.end;
                    merged.stream_range(range, sink)
                })
            }
            whole => TensorReader::of_range(info.clone(), whole.reader(), elements),
        }
    }

    /// The message that the places are counted in.
    pub(super) fn whole(&self) -> &Whole {
        &self.whole
    }

    /// Reads the tensors whose places are known, each to its buffer, which is as long, and gives back
    /// the others.
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
        match &self.whole {
            Whole::Plain(bytes) => read_plain(&**bytes, placed, threads, meter)?,
            Whole::Merged(merged) => read_chunks(merged, placed, threads, meter)?,
        }
        Ok(others)
    }
}

/// A tensor, where it is in the message, and where it goes.
type Placed<'w, 'b> = (&'w TensorInfo, Range<u64>, &'b mut [u8]);

/// Reads tensors of a file in chunks. Chunks that are read whole, or nearly, are read once for all
/// of them; of others the checksums are compared once for as long as the input is open.
fn read_chunks(
    merged: &MergedMessage<Shared>,
    placed: Vec<Placed<'_, '_>>,
    threads: Option<NonZeroUsize>,
    meter: &Meter,
) -> Result<()> {
    let (whole, parts): (Vec<_>, Vec<_>) = placed
        .into_iter()
        .partition(|(_, place, _)| merged.whole_chunks(place).is_some());
    // Parts that are most of their chunks are read along with these chunks' checks.
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
    // The first byte of each has its chunk checked, before several threads ask for it.
    for (_, place, _) in by_one.iter().filter(|(_, place, _)| !place.is_empty()) {
        merged.read_exact_at(place.start, &mut [0])?;
    }
    read_plain(merged, by_one, threads, meter)
}

fn read_plain(
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
                fill_together(std::mem::take(&mut step), threads)?;
                meter.advance(std::mem::take(&mut filled) as u64)?;
            }
        }
    }
    fill_together(step, threads)?;
    meter.advance(filled as u64)
}
