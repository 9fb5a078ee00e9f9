//! Tests of the number of reads and the bytes that are read.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use proto_splitter_samediff::{
    Array, ArrayInfo, CheckOptions, Draft, Graph, Model, ModelOptions, Nd4jType, SameDiffVariable,
    SameDiffWriteOptions, TagContent, VarType, ZipCompression, write_classic, write_safetensors,
};
use record_file::ReadAt;

/// A source that records the offset and the length of each read.
#[derive(Clone)]
struct Watched {
    inner: Arc<dyn ReadAt>,
    reads: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Watched {
    fn new(inner: impl ReadAt + 'static) -> Watched {
        Watched {
            inner: Arc::new(inner),
            reads: Arc::default(),
        }
    }

    fn take(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    fn bytes(&self) -> u64 {
        self.take().iter().map(|read| read.1).sum()
    }
}

impl ReadAt for Watched {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read_at(offset, buf)?;
        self.reads.lock().unwrap().push((offset, read as u64));
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }
}

const LEN: u64 = 1 << 20;
const COUNT: u64 = 8;

fn name(number: u64) -> String {
    format!("w{number}")
}

/// Returns the content of a tag with eight 1 MiB arrays, and a recorder of the reads of their data.
/// If `other` is given, it is the number of an array that differs.
fn content(other: Option<u64>) -> (TagContent, Watched) {
    let mut bytes = Vec::new();
    for number in 0..COUNT {
        let value = if other == Some(number) { 99 } else { number };
        bytes.resize(bytes.len() + LEN as usize, value as u8);
    }
    let data = Watched::new(bytes);
    let mut graph = Graph::default();
    for number in 0..COUNT {
        let variable = SameDiffVariable::new(
            name(number),
            VarType::Variable,
            Nd4jType::UInt8,
            [LEN as i64],
        );
        graph.variables.push(variable);
    }
    let mut content = TagContent::new(graph);
    for number in 0..COUNT {
        let info = ArrayInfo::new(Nd4jType::UInt8, [LEN]).unwrap();
        let array = Array::from_source(info, Arc::new(data.clone()), number * LEN, LEN);
        content = content.parameter(name(number), array.unwrap());
    }
    (content, data)
}

fn watched(path: &Path) -> (Model, Watched) {
    let source = Watched::new(File::open(path).unwrap());
    let model = Model::from_source(Arc::new(source.clone()), &ModelOptions::new()).unwrap();
    (model, source)
}

fn model(path: &Path) {
    let mut draft = Draft::new();
    draft
        .add_tag("first".parse().unwrap(), content(None).0)
        .unwrap();
    draft.write(path, &SameDiffWriteOptions::new()).unwrap();
}

/// Returns pseudorandom bytes, which are incompressible.
fn noise(seed: u64) -> Vec<u8> {
    let mut word = seed;
    let words = (0..LEN / 8).flat_map(|_| {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (word ^ (word >> 29)).to_le_bytes()
    });
    words.collect()
}

/// Returns the content of a tag with eight incompressible arrays.
fn noisy() -> TagContent {
    let mut graph = Graph::default();
    for number in 0..COUNT {
        let variable = SameDiffVariable::new(
            name(number),
            VarType::Variable,
            Nd4jType::UInt8,
            [LEN as i64],
        );
        graph.variables.push(variable);
    }
    (0..COUNT).fold(TagContent::new(graph), |content, number| {
        let info = ArrayInfo::new(Nd4jType::UInt8, [LEN]).unwrap();
        let array = Array::from_bytes(info, noise(number)).unwrap();
        content.parameter(name(number), array)
    })
}

#[test]
fn a_deflated_array_is_compared_while_it_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zip");
    let mut draft = Draft::new();
    draft.add_tag("first".parse().unwrap(), noisy()).unwrap();
    let deflated = SameDiffWriteOptions::new().compression(ZipCompression::Deflated);
    draft.write(&path, &deflated).unwrap();
    let (model, source) = watched(&path);
    let mut draft = Draft::open(&model).unwrap();
    source.take();
    draft.add_tag("second".parse().unwrap(), noisy()).unwrap();
    let both = folder.path().join("both.zip");
    let written = draft.write(&both, &SameDiffWriteOptions::new()).unwrap();
    assert_eq!((written.arrays, written.shared), (COUNT, COUNT));
    // All bytes are read once, and the beginning of each array is read again to parse its header.
    let most = COUNT * (LEN + (160 << 10));
    let read = source.bytes();
    assert!(read < most, "{read}, more than {most}");
    let both = Model::open(&both).unwrap();
    let report = both.check(&CheckOptions::new()).unwrap();
    report.into_result().unwrap();
}

#[test]
fn one_parameter_is_read_by_two_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zip");
    model(&path);
    let (model, source) = watched(&path);
    let parameters = model.default_tag().parameters().unwrap();
    let file = parameters.get("w5").unwrap()[0];
    source.take();
    let array = parameters.open(&file).unwrap();
    assert_eq!(source.take().len(), 1, "to open it");
    let mut values = array.values().unwrap();
    let mut bytes = vec![0; LEN as usize];
    io::Read::read_exact(&mut values, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 5));
    // The bytes that were read together with the header aren't read again.
    let reads = source.take();
    assert_eq!(reads.len(), 1, "{reads:?}");
    assert!(reads[0].1 < LEN);
}

#[test]
fn opening_a_model_reads_its_directory_and_no_array() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zip");
    model(&path);
    let (model, source) = watched(&path);
    let opened = source.bytes();
    assert!(opened < 128 << 10, "{opened}");
    model.default_tag().graph().unwrap();
    Draft::open(&model).unwrap();
    let more = source.bytes();
    assert!(more < 32 << 10, "{more}");
}

#[test]
fn a_checkpoint_that_shares_all_but_one_reads_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zip");
    model(&path);
    let (model, source) = watched(&path);
    let mut draft = Draft::open(&model).unwrap();
    let (content, data) = content(Some(3));
    draft.add_tag("second".parse().unwrap(), content).unwrap();
    source.take();
    let written = draft
        .write(folder.path().join("both.zip"), &SameDiffWriteOptions::new())
        .unwrap();
    assert_eq!((written.arrays, written.shared), (COUNT + 1, COUNT - 1));
    let (old, new) = (source.bytes(), data.bytes());
    // The array that differs is read up to the first difference, and again when it is written.
    let all = COUNT * LEN;
    assert!(old < all + (1 << 18), "{old} of {all}");
    assert!(new <= all + LEN, "{new} of {all}");
}

#[test]
fn an_export_holds_no_data_of_arrays_until_it_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.zip");
    model(&path);
    let bytes = std::fs::read(&path).unwrap();
    let starts = (1..COUNT).map(|number| {
        let run = [u8::try_from(number).unwrap(); 64];
        bytes.windows(64).position(|bytes| bytes == run).unwrap() as u64
    });
    let starts: Vec<u64> = starts.collect();
    let (model, source) = watched(&path);
    let options = SameDiffWriteOptions::new();
    let tag = model.default_tag();
    for classic in [true, false] {
        source.take();
        let target = folder.path().join(format!("{classic}"));
        let written = if classic {
            write_classic(&tag, target, &options)
        } else {
            write_safetensors(&tag, target, &options)
        };
        written.unwrap();
        let reads = source.take();
        for start in &starts {
            // Once with the header, and again to write the data.
            let contain = reads
                .iter()
                .filter(|(at, len)| (*at..at + len).contains(start));
            assert_eq!(contain.count(), 2, "{start} {classic}");
        }
    }
}
