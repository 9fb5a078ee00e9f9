//! The tensors of a message: where each is, and reading many at once.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use record_file::ReadAt;

use crate::Result;
use crate::container::ChunkedFile;
use crate::merged_message::MergedMessage;
use crate::progress::Meter;
use crate::tensor::{PlacedTensor, PlacedTensors, TensorInfo, TensorReader, fill_together};

/// How much is read of a message in one piece between two looks at whether to go on: 32 MiB, which
/// are several loads for each of a few threads.
const STEP: usize = 32 << 20;

/// What a message is read from: a file, or an object in a store.
pub(super) type Shared = Arc<dyn ReadAt>;

/// The tensors of a message, as they were listed.
#[derive(Debug)]
pub(super) struct TensorTable {
    tensors: Vec<TensorInfo>,
    /// Which bytes of the message each is, if it is in one piece there.
    places: Vec<Option<Range<u64>>>,
    by_name: HashMap<String, usize>,
    /// The message, merged, if it is in chunks: what the places are counted in.
    merged: Option<Arc<MergedMessage<Shared>>>,
}

impl TensorTable {
    /// What was found in a message, and the file in chunks that it is in, if it is.
    pub(super) fn new(found: PlacedTensors, file: Option<Arc<ChunkedFile<Shared>>>) -> TensorTable {
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
    pub(super) fn place(&self, info: &TensorInfo) -> Option<Range<u64>> {
        let at = *self.by_name.get(&info.name)?;
        let same = self.tensors.get(at).is_some_and(|known| known == info);
        self.places.get(at).cloned().flatten().filter(|_| same)
    }

    /// A tensor by where it is, so that the path to it isn't followed again; none if that isn't known,
    /// or it is better read by its path. `plain` is the message, if it is in one piece.
    pub(super) fn reader(
        &self,
        info: &TensorInfo,
        plain: Option<(&Arc<dyn ReadAt>, u64)>,
    ) -> Option<TensorReader<'static>> {
        let place = self.place(info)?;
        if let Some((bytes, _)) = plain {
            let bytes = Arc::clone(bytes);
            return Some(TensorReader::of_range(info.clone(), bytes, place));
        }
        let merged = self.merged.as_ref()?;
        // A chunk by itself is streamed; of one that holds more the checksums are compared once.
        if merged.whole_chunks(&place).is_some() {
            return None;
        }
        let bytes = Arc::clone(merged) as Arc<dyn ReadAt>;
        Some(TensorReader::of_range(info.clone(), bytes, place))
    }

    /// Reads the tensors whose places are known, each to its buffer, which is as long, and gives back
    /// the others.
    pub(super) fn fill<'w, 'b>(
        &self,
        wanted: Vec<(&'w TensorInfo, &'b mut [u8])>,
        plain: Option<(&Arc<dyn ReadAt>, u64)>,
        threads: Option<NonZeroUsize>,
        meter: &Meter,
    ) -> Result<Vec<(&'w TensorInfo, &'b mut [u8])>> {
        let (mut placed, mut others) = (Vec::new(), Vec::new());
        for (info, buffer) in wanted {
            match self.place(info) {
                Some(place) => placed.push((info, place, buffer)),
                None => others.push((info, buffer)),
            }
        }
        match (plain, &self.merged) {
            (Some((bytes, _)), _) => read_plain(&**bytes, placed, threads, meter)?,
            (None, Some(merged)) => read_chunks(merged, placed, threads, meter)?,
            // Places are of one or the other.
            (None, None) => others.extend(placed.into_iter().map(|(info, _, to)| (info, to))),
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
