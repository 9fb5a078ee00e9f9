//! Reading an array in C order from a source that stores it in Fortran order.

use std::io::{self, Read, Write};
use std::sync::Arc;

use proto_splitter_core::atomic::check_space;
use record_file::ReadAt;

/// Maximum number of bytes reordered at once: 16 MiB.
const BLOCK: u64 = 16 << 20;

/// Minimum size of a read from an array that is larger than [`BLOCK`]: 4 KiB.
const PIECE: u64 = 4 << 10;

/// Number of columns copied together, so that adjacent elements of a row are written at once.
const GROUP: usize = 16;

/// A reader that returns the elements of an array in C order, from a source in Fortran order.
///
/// Elements that differ only in the first index form a *column*, and are contiguous in the source.
/// Elements with the same first index form a *row*, and are contiguous in C order. The reader
/// assembles a block of rows at a time, for which it reads a part of each column. If these parts
/// would be small, the reader first copies the source to a temporary file, one *slab* of several
/// columns at a time. The copy stores the slabs one after another, with the rows of each slab
/// contiguous. Either way, every byte of the source is read once, and no read is small.
pub(super) struct Transposed {
    source: Arc<dyn ReadAt>,
    offset: u64,
    /// Length of each dimension, without dimensions of length one.
    dims: Vec<u64>,
    width: usize,
    block: u64,
    piece: u64,
    plan: Option<Plan>,
}

/// The method of reordering the elements.
enum Plan {
    Blocks(Blocks),
    /// Rows that are larger than a block. The elements of each row are themselves in Fortran order,
    /// and are reordered separately for each row.
    Rows {
        slabs: Arc<Slabs>,
        next: u64,
        row: Option<Box<Transposed>>,
    },
}

impl Transposed {
    /// Creates a reader for the data at `offset`, with elements of `width` bytes.
    pub(super) fn new(source: Arc<dyn ReadAt>, offset: u64, shape: &[u64], width: usize) -> Self {
        Transposed {
            source,
            offset,
            dims: shape.iter().copied().filter(|&dim| dim != 1).collect(),
            width,
            block: BLOCK,
            piece: PIECE,
            plan: None,
        }
    }

    fn plan(&self) -> io::Result<Plan> {
        let width = self.width as u64;
        let (&first, others) = self.dims.split_first().unwrap_or((&1, &[]));
        // The product was checked along with the shape, so it can't overflow. If a dimension is
        // zero, a product of the other dimensions might.
        let (rows, columns): (u64, u64) = if self.dims.contains(&0) {
            (0, 0)
        } else {
            (first, others.iter().product())
        };
        let mut slabs = Slabs {
            source: Arc::clone(&self.source),
            offset: self.offset,
            rows,
            columns,
            per_slab: 1,
            width: self.width,
        };
        let row_len = columns * width;
        let whole = row_len * rows;
        let rows_at_once = self.block.checked_div(row_len).unwrap_or(rows).min(rows);
        let per_slab = self.block / (rows * width).max(1);
        if whole <= self.block {
            let mut bytes = vec![0; to_usize(whole)?];
            self.source.read_exact_at(self.offset, &mut bytes)?;
            (slabs.source, slabs.offset) = (Arc::new(bytes), 0);
        } else if rows_at_once * width < self.piece && per_slab > 1 {
            slabs = slabs.respooled(per_slab, whole)?;
        }
        if rows_at_once == 0 && rows > 0 {
            return Ok(Plan::Rows {
                slabs: Arc::new(slabs),
                next: 0,
                row: None,
            });
        }
        Ok(Plan::Blocks(Blocks {
            rows_at_once,
            others: others.to_vec(),
            next: 0,
            bytes: Vec::new(),
            at: 0,
            slab: Vec::new(),
            slabs,
        }))
    }
}

impl Read for Transposed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut plan = match self.plan.take() {
            Some(plan) => plan,
            None => self.plan()?,
        };
        let read = match &mut plan {
            Plan::Blocks(blocks) => blocks.read(buf),
            Plan::Rows { slabs, next, row } => loop {
                if let Some(current) = row {
                    match current.read(buf) {
                        Ok(0) if !buf.is_empty() => *row = None,
                        read => break read,
                    }
                }
                if *next == slabs.rows {
                    break Ok(0);
                }
                let source = Row {
                    slabs: Arc::clone(slabs),
                    row: *next,
                };
                let mut inner = Transposed::new(Arc::new(source), 0, &self.dims[1..], self.width);
                (inner.block, inner.piece) = (self.block, self.piece);
                *row = Some(Box::new(inner));
                *next += 1;
            },
        };
        self.plan = Some(plan);
        read
    }
}

/// A matrix of elements, stored one slab of columns after another. Within a slab, the rows are
/// stored one after another. With one column in each slab, this is Fortran order.
struct Slabs {
    source: Arc<dyn ReadAt>,
    offset: u64,
    rows: u64,
    columns: u64,
    /// Number of columns in each slab, except that the last slab may have fewer.
    per_slab: u64,
    width: usize,
}

impl Slabs {
    fn count(&self) -> u64 {
        self.columns.div_ceil(self.per_slab)
    }

    /// Returns the number of columns in a slab.
    fn columns_of(&self, slab: u64) -> u64 {
        self.per_slab.min(self.columns - slab * self.per_slab)
    }

    /// Returns the byte offset in the source at which a row of a slab starts.
    fn position(&self, slab: u64, row: u64) -> u64 {
        let element = slab * self.per_slab * self.rows + row * self.columns_of(slab);
        self.offset + element * self.width as u64
    }

    /// Appends `rows` rows of a slab to `buf`, starting with `row`.
    fn read(&self, slab: u64, row: u64, rows: u64, buf: &mut Vec<u8>) -> io::Result<()> {
        let len = rows * self.columns_of(slab) * self.width as u64;
        let start = buf.len();
        buf.resize(start + to_usize(len)?, 0);
        let at = self.position(slab, row);
        self.source.read_exact_at(at, &mut buf[start..])
    }

    /// Copies the elements to a temporary file, in slabs of `per_slab` columns.
    fn respooled(self, per_slab: u64, whole: u64) -> io::Result<Slabs> {
        check_space(&std::env::temp_dir().join("transposed"), whole).map_err(io::Error::other)?;
        let mut file = tempfile::tempfile()?;
        let target = Slabs {
            source: Arc::new(file.try_clone()?),
            offset: 0,
            per_slab,
            ..self
        };
        let (mut columns, mut rows) = (Vec::new(), Vec::new());
        for slab in 0..target.count() {
            let count = target.columns_of(slab);
            let first = slab * per_slab * self.rows * self.width as u64;
            columns.resize(to_usize(count * self.rows * self.width as u64)?, 0);
            self.source
                .read_exact_at(self.offset + first, &mut columns)?;
            rows.resize(columns.len(), 0);
            let shape = (to_usize(count)?, to_usize(self.rows)?);
            match self.width {
                1 => turn::<1>(&columns, &mut rows, shape),
                2 => turn::<2>(&columns, &mut rows, shape),
                4 => turn::<4>(&columns, &mut rows, shape),
                _ => turn::<8>(&columns, &mut rows, shape),
            }
            file.write_all(&rows)?;
        }
        Ok(target)
    }
}

/// A source that consists of one row of a matrix. The row is an array of all dimensions after the
/// first, in Fortran order.
struct Row {
    slabs: Arc<Slabs>,
    row: u64,
}

impl ReadAt for Row {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let slabs = &*self.slabs;
        let width = slabs.width as u64;
        let slab = offset / (slabs.per_slab * width);
        if slab >= slabs.count() {
            return Ok(0);
        }
        let within = offset - slab * slabs.per_slab * width;
        let left = slabs.columns_of(slab) * width - within;
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let at = slabs.position(slab, self.row) + within;
        slabs.source.read_at(at, &mut buf[..len])
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.slabs.columns * self.slabs.width as u64)
    }
}

/// A reader that assembles rows in C order, one block at a time.
struct Blocks {
    slabs: Slabs,
    rows_at_once: u64,
    /// Length of each dimension after the first.
    others: Vec<u64>,
    /// First row that hasn't been read yet.
    next: u64,
    bytes: Vec<u8>,
    at: usize,
    slab: Vec<u8>,
}

impl Blocks {
    fn gather(&mut self) -> io::Result<()> {
        let slabs = &self.slabs;
        let rows = self.rows_at_once.min(slabs.rows - self.next);
        let columns = to_usize(slabs.columns)?;
        let count = to_usize(rows)?;
        self.bytes.resize(count * columns * slabs.width, 0);
        let mut places = Places::new(&self.others);
        let single = slabs.per_slab == 1;
        let together = if single { GROUP } else { 1 };
        let mut slab = 0;
        while slab < slabs.count() {
            let until = slabs.count().min(slab + together as u64);
            self.slab.clear();
            for slab in slab..until {
                slabs.read(slab, self.next, rows, &mut self.slab)?;
            }
            // The number of columns in this slab, and the distances, in elements, between its
            // columns and between its rows.
            let own = to_usize(slabs.columns_of(slab))?;
            let (own, from) = if single {
                (to_usize(until - slab)?, (count, 1))
            } else {
                (own, (1, own))
            };
            for left in (0..own).step_by(GROUP) {
                let mut to = [0; GROUP];
                let to = &mut to[..GROUP.min(own - left)];
                for place in &mut *to {
                    *place = to_usize(places.take())?;
                }
                let source = &self.slab[left * from.0 * slabs.width..];
                match slabs.width {
                    1 => scatter::<1>(source, from, &mut self.bytes, columns, to),
                    2 => scatter::<2>(source, from, &mut self.bytes, columns, to),
                    4 => scatter::<4>(source, from, &mut self.bytes, columns, to),
                    _ => scatter::<8>(source, from, &mut self.bytes, columns, to),
                }
            }
            slab = until;
        }
        self.next += rows;
        self.at = 0;
        Ok(())
    }
}

impl Read for Blocks {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len() {
            if self.next == self.slabs.rows {
                return Ok(0);
            }
            self.gather()?;
        }
        let len = buf.len().min(self.bytes.len() - self.at);
        buf[..len].copy_from_slice(&self.bytes[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

/// A counter that visits the columns in Fortran order, and returns the position that each column
/// has in C order.
struct Places {
    /// For each dimension: its length, its stride in C order, and the current index.
    dims: Vec<(u64, u64, u64)>,
    place: u64,
}

impl Places {
    fn new(dims: &[u64]) -> Places {
        let steps = (1..=dims.len()).map(|next| dims[next..].iter().product());
        let dims = dims.iter().zip(steps);
        Places {
            dims: dims.map(|(&dim, step)| (dim, step, 0)).collect(),
            place: 0,
        }
    }

    /// Returns the position of the current column, and advances to the next.
    fn take(&mut self) -> u64 {
        let place = self.place;
        for (dim, step, index) in &mut self.dims {
            *index += 1;
            self.place += *step;
            if *index < *dim {
                break;
            }
            self.place -= *step * *dim;
            *index = 0;
        }
        place
    }
}

/// Copies columns of elements to the positions `places` in each row of `target`, which has rows of
/// `columns` elements. `from` has the distances, in elements, between columns and between rows in
/// `source`.
fn scatter<const W: usize>(
    source: &[u8],
    from: (usize, usize),
    target: &mut [u8],
    columns: usize,
    places: &[usize],
) {
    let (source, _) = source.as_chunks::<W>();
    let (target, _) = target.as_chunks_mut::<W>();
    for (row, target) in target.chunks_exact_mut(columns).enumerate() {
        for (column, &place) in places.iter().enumerate() {
            target[place] = source[column * from.0 + row * from.1];
        }
    }
}

/// Transposes columns into rows, one square of elements at a time. A square fits into the
/// processor's cache.
fn turn<const W: usize>(columns: &[u8], rows: &mut [u8], (width, height): (usize, usize)) {
    const SIDE: usize = 32;
    let (columns, _) = columns.as_chunks::<W>();
    let (rows, _) = rows.as_chunks_mut::<W>();
    for left in (0..width).step_by(SIDE) {
        for top in (0..height).step_by(SIDE) {
            for row in top..height.min(top + SIDE) {
                for column in left..width.min(left + SIDE) {
                    rows[row * width + column] = columns[column * height + row];
                }
            }
        }
    }
}

fn to_usize(value: u64) -> io::Result<usize> {
    usize::try_from(value).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Returns the bytes of an array in Fortran order, in which the value of each element is its
    /// index in C order.
    fn stored(shape: &[u64]) -> Vec<u8> {
        let count: u64 = shape.iter().product();
        let mut bytes = vec![0; usize::try_from(4 * count).unwrap()];
        for element in 0..count {
            let mut index = Vec::new();
            let mut rest = element;
            for dim in shape.iter().rev() {
                index.push(rest % dim);
                rest /= dim;
            }
            // `index` has the last dimension first.
            let place = index
                .iter()
                .zip(shape.iter().rev())
                .fold(0, |at, (i, dim)| at * dim + i);
            let place = usize::try_from(4 * place).unwrap();
            let value = u32::try_from(element).unwrap();
            bytes[place..place + 4].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Reads the array that [`stored`] returns for this shape, with this block size and minimum
    /// size of a read, in bytes. Returns the elements in C order, and the offset and length of each
    /// read.
    fn read(shape: &[u64], block: u64, piece: u64) -> (Vec<u32>, Vec<(u64, u64)>) {
        let source = Arc::new(Watched {
            bytes: stored(shape),
            reads: Mutex::default(),
        });
        let mut transposed = Transposed::new(source.clone(), 0, shape, 4);
        (transposed.block, transposed.piece) = (block, piece);
        let mut bytes = Vec::new();
        transposed.read_to_end(&mut bytes).unwrap();
        let (words, _) = bytes.as_chunks::<4>();
        let values = words.iter().map(|word| u32::from_le_bytes(*word));
        let reads = source.reads.lock().unwrap().clone();
        (values.collect(), reads)
    }

    struct Watched {
        bytes: Vec<u8>,
        reads: Mutex<Vec<(u64, u64)>>,
    }

    impl ReadAt for Watched {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            let read = self.bytes.read_at(offset, buf)?;
            self.reads.lock().unwrap().push((offset, read as u64));
            Ok(read)
        }

        fn size(&self) -> io::Result<u64> {
            self.bytes.size()
        }
    }

    #[test]
    fn elements_in_fortrans_order_come_out_in_cs() {
        let shapes: &[&[u64]] = &[
            &[2, 3],
            &[3, 1, 2],
            &[2, 3, 4, 5],
            &[5, 4, 3, 2],
            &[7, 0],
            &[0, 7],
            &[2, 100],
            &[100, 2],
            &[2, 9, 50],
            &[2, 2, 2, 2, 2, 2, 2],
            &[33, 35],
            &[61],
        ];
        for shape in shapes {
            let count: u64 = shape.iter().product();
            let expected: Vec<u32> = (0..u32::try_from(count).unwrap()).collect();
            // The sizes of the blocks range from less than a row to the whole array.
            for block in [16, 36, 64, 200, 1000, 1 << 20] {
                for piece in [4, 8, 64, 4096] {
                    let (found, reads) = read(shape, block, piece);
                    assert_eq!(found, expected, "{shape:?} {block} {piece}");
                    let bytes: u64 = reads.iter().map(|read| read.1).sum();
                    assert_eq!(bytes, 4 * count, "{shape:?} {block} {piece}");
                }
            }
        }
    }

    #[test]
    fn a_source_is_read_once_and_never_element_by_element() {
        // A wide array, in which a block has few rows; a tall array; and arrays whose rows are
        // larger than a block.
        let shapes: &[&[u64]] = &[&[64, 1024], &[2048, 32], &[4, 128, 128], &[3, 2, 11_000]];
        for shape in shapes {
            let (block, piece) = (16 << 10, 256);
            let (found, reads) = read(shape, block, piece);
            assert!(found.is_sorted(), "{shape:?}");
            let size: u64 = 4 * shape.iter().product::<u64>();
            let bytes: u64 = reads.iter().map(|read| read.1).sum();
            assert_eq!(bytes, size, "{shape:?}");
            let most = 2 * size / piece;
            assert!(reads.len() as u64 <= most, "{shape:?}: {}", reads.len());
        }
    }
}
