//! Tests of writing streams in every layout, and of reading them back.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proto_splitter_core::ErrorKind;
use proto_splitter_paddle::proto::framework::var_type::Type;
use proto_splitter_paddle::stream::{
    Layout, Stream, StreamKind, TensorSpec, write_stream, write_vocabulary,
};
use proto_splitter_paddle::{ParameterFile, ParameterSpec, ParameterWriter, element_size};
use record_file::ReadAt;

use crate::support::fixtures;
use crate::target;

fn element_types() -> Vec<Type> {
    let all = (0..64).filter_map(|number| Type::try_from(number).ok());
    all.filter(|dtype| element_size(*dtype).is_some()).collect()
}

prop_compose! {
    fn dense()(
        dtype in prop::sample::select(element_types()),
        dims in prop::collection::vec(0u64..5, 0..5),
        lod in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..5), 0..4),
    ) -> TensorSpec {
        TensorSpec::dense(dtype, dims).lod(lod)
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(spec in dense(), seed in any::<u8>(), at in 0u64..100) {
        let size = spec.data_size().unwrap();
        let data: Vec<u8> = (0..size).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect();
        for layout in Layout::ALL {
            let mut bytes = vec![9; at as usize];
            let written = write_stream(&mut bytes, &spec, layout, &mut &data[..]).unwrap();
            prop_assert_eq!(written, bytes.len() as u64 - at);
            bytes.extend([7; 5]);
            let stream = Stream::read(&bytes, at, StreamKind::Dense, layout).unwrap();
            prop_assert_eq!(stream.range(), at..at + written);
            let mut found = vec![0; data.len()];
            stream.read_data(&bytes, &mut found).unwrap();
            prop_assert_eq!(&found, &data);
            let mut again = Vec::new();
            let lod = stream.lod(&bytes).unwrap();
            let respec = TensorSpec::dense(stream.dtype().unwrap(), stream.dims()).lod(lod);
            write_stream(&mut again, &respec, layout, &mut &found[..]).unwrap();
            prop_assert_eq!(&again[..], &bytes[at as usize..(at + written) as usize]);
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(how in any::<u8>(), bytes in prop::collection::vec(any::<u8>(), 0..200), zeros in 0usize..30) {
        let mut bytes = bytes;
        let front = bytes.len().min(zeros);
        bytes[..front].fill(0);
        bytes.insert(0, how);
        target::stream(&bytes);
    }

    #[test]
    fn no_change_to_a_stream_makes_a_reader_panic(spec in dense(), how in 0u8..3, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let size = spec.data_size().unwrap();
        let mut bytes = vec![how];
        let layout = Layout::ALL[usize::from(how)];
        write_stream(&mut bytes, &spec, layout, &mut io::repeat(7).take(size)).unwrap();
        target::stream(&bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        target::stream(&bytes);
    }
}

#[test]
fn the_bytes_of_each_layout_are_those_of_its_picture() {
    let spec = TensorSpec::dense(Type::Fp32, [6, 2]).lod([vec![0, 2, 5, 6]]);
    let data = [0xdd; 48];
    let desc = [8, 5, 16, 6, 16, 2];
    let level: Vec<u8> = [32u64, 0, 2, 5, 6]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    let lod = [&1u64.to_le_bytes()[..], &level].concat();
    let zero = [0; 4];
    let size = [6, 0, 0, 0];
    let paddle = [&zero, &lod[..], &zero, &size, &desc, &data].concat();
    for (layout, wanted) in [
        (Layout::Paddle, paddle.clone()),
        (
            Layout::ModelFormat,
            [&zero, &size[..], &desc, &data, &lod].concat(),
        ),
        (Layout::Sized, [&114u64.to_le_bytes(), &paddle[..]].concat()),
    ] {
        let mut written = Vec::new();
        write_stream(&mut written, &spec, layout, &mut &data[..]).unwrap();
        assert_eq!(written, wanted, "{layout}");
    }
}

#[test]
fn data_that_ends_early_and_a_tensor_that_contradicts_itself_are_refused() {
    let spec = TensorSpec::dense(Type::Fp32, [2]);
    let error = write_stream(&mut io::sink(), &spec, Layout::Paddle, &mut &[0; 7][..]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("7 bytes of data for a tensor of 8"),
        "{error}"
    );
    let rows = TensorSpec::selected_rows(Type::Fp32, [2, 1], [1], 4);
    let error = write_stream(&mut io::sink(), &rows, Layout::Paddle, &mut io::empty()).unwrap_err();
    assert!(error.to_string().contains("1 row numbers"), "{error}");
    let rows = TensorSpec::selected_rows(Type::Fp32, [1, 1], [1], 4);
    let error = write_stream(
        &mut io::sink(),
        &rows,
        Layout::ModelFormat,
        &mut io::repeat(0).take(4),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    let texts = TensorSpec::dense(Type::Strings, [1]);
    assert!(write_stream(&mut io::sink(), &texts, Layout::Paddle, &mut io::empty()).is_err());
}

/// A file that consists of headers and zeros, with a counter of the bytes that were read.
struct Counting {
    headers: Vec<(u64, Vec<u8>)>,
    size: u64,
    read: AtomicU64,
}

impl ReadAt for Counting {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let most = buf.len().min(left);
        buf[..most].fill(0);
        for (at, bytes) in &self.headers {
            for (i, byte) in bytes.iter().enumerate() {
                let place = (at + i as u64).checked_sub(offset);
                let place = place.and_then(|place| usize::try_from(place).ok());
                if let Some(byte_at) = place.and_then(|place| buf[..most].get_mut(place)) {
                    *byte_at = *byte;
                }
            }
        }
        self.read.fetch_add(most as u64, Ordering::Relaxed);
        Ok(most)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}

#[test]
fn a_header_is_read_with_less_than_64_bytes_however_large_the_data_is() {
    for layout in Layout::ALL {
        let spec = TensorSpec::dense(Type::Fp32, [1 << 20, 1 << 12, 3]);
        let size = spec.data_size().unwrap();
        let mut front = Vec::new();
        // Writes just the bytes before the data, which has no content here. In the model format,
        // LoD follows the data, and also consists of zeros.
        let error = write_stream(&mut front, &spec, layout, &mut io::empty()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        let tail = if layout == Layout::ModelFormat { 8 } else { 0 };
        let file = Counting {
            size: front.len() as u64 + size + tail,
            headers: vec![(0, front)],
            read: AtomicU64::new(0),
        };
        let stream = Stream::read(&file, 0, StreamKind::Dense, layout).unwrap();
        assert_eq!(stream.range().end, file.size);
        let read = file.read.load(Ordering::Relaxed);
        assert!(read < 64, "{layout}: {read}");
    }
}

#[test]
fn headers_of_a_thousand_tensors_are_walked_with_little_read_of_each() {
    let spec = TensorSpec::dense(Type::Fp32, [768, 1024]);
    let size = spec.data_size().unwrap();
    for layout in [Layout::Paddle, Layout::Sized] {
        let mut header = Vec::new();
        write_stream(&mut header, &spec, layout, &mut io::empty()).unwrap_err();
        let stream = header.len() as u64 + size;
        let file = Counting {
            size: 1000 * stream,
            headers: (0..1000).map(|k| (k * stream, header.clone())).collect(),
            read: AtomicU64::new(0),
        };
        let mut at = 0;
        while at < file.size {
            at = Stream::read(&file, at, StreamKind::Dense, layout)
                .unwrap()
                .range()
                .end;
        }
        let read = file.read.load(Ordering::Relaxed);
        assert!(read <= 40_000, "{layout}: {read}");
    }
}

#[test]
fn a_vocabulary_is_read_and_written_again_as_paddle_wrote_it() {
    let bytes = std::fs::read(fixtures().join("vocab/params")).unwrap();
    let read = |bytes: &Vec<u8>, layout| {
        let stream = Stream::read(bytes, 0, StreamKind::Vocabulary, layout).unwrap();
        stream.verify(bytes).unwrap();
        stream.words(bytes).unwrap()
    };
    let words = read(&bytes, Layout::Paddle);
    assert_eq!(words, [("a".to_owned(), 1), ("b\u{e9}".to_owned(), 2)]);
    let again = || words.iter().map(|(word, number)| (word, *number));
    let mut written = Vec::new();
    let size = write_vocabulary(&mut written, again(), Layout::Paddle).unwrap();
    assert_eq!((size, &written), (bytes.len() as u64, &bytes));
    let mut sized = Vec::new();
    let size = write_vocabulary(&mut sized, again(), Layout::Sized).unwrap();
    let wanted = [&(bytes.len() as u64).to_le_bytes(), &bytes[..]].concat();
    assert_eq!((size, &sized), (wanted.len() as u64, &wanted));
    assert_eq!(read(&sized, Layout::Sized), words);
    let error = write_vocabulary(&mut io::sink(), again(), Layout::ModelFormat).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert_eq!(
        error.to_string(),
        "the layout model-format can't store a vocabulary"
    );
}

#[test]
fn a_vocabulary_larger_than_what_is_read_at_once_comes_back() {
    let words: Vec<(String, i32)> = (0..3000)
        .map(|n| ("w".repeat(n as usize % 97), n))
        .chain([("x".repeat(200_000), -1)])
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words");
    for layout in [Layout::Paddle, Layout::Sized] {
        let mut writer = ParameterWriter::create(&path, layout, true).unwrap();
        for counter in 0..2 {
            let again = words.iter().map(|(word, number)| (word, *number));
            assert_eq!(writer.write_vocabulary(again).unwrap(), counter);
        }
        writer.finish().unwrap();
        let names = ["a", "b"].map(|name| ParameterSpec::new(name, StreamKind::Vocabulary));
        let file = ParameterFile::open(&path, Some(&names), None).unwrap();
        assert_eq!(file.layout(), layout);
        file.verify().unwrap();
        for parameter in file.parameters() {
            assert_eq!(parameter.stream().words(file.bytes()).unwrap(), words);
        }
    }
}

#[test]
fn a_word_that_is_not_unicode_is_found_by_verify() {
    let mut bytes = std::fs::read(fixtures().join("vocab/params")).unwrap();
    bytes[16] = 0xff;
    let stream = Stream::read(&bytes, 0, StreamKind::Vocabulary, Layout::Paddle).unwrap();
    let error = stream.verify(&bytes).unwrap_err().to_string();
    assert_eq!(error, "word 0 isn't Unicode at 0x10");
}
