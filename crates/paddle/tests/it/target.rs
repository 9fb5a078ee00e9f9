//! A check that must succeed for arbitrary bytes that are parsed as a stream. The tests and the
//! fuzz target share it.

use proto_splitter_paddle::stream::{Layout, Stream, StreamKind, TensorSpec, write_stream};

/// Parses bytes as a stream, whose layout and kind depend on the first byte. If parsing succeeds,
/// checks that all parts are within the bytes, and that the stream is equal after it is written and
/// read again.
pub(crate) fn stream(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    let layout = Layout::ALL[usize::from(how) % 3];
    let kinds = [
        StreamKind::Dense,
        StreamKind::SelectedRows,
        StreamKind::Vocabulary,
    ];
    let kind = kinds[usize::from(how) / 3 % 3];
    let Ok(stream) = Stream::read(&bytes, 0, kind, layout) else {
        return;
    };
    let range = stream.range();
    assert!(range.start == 0 && range.end <= bytes.len() as u64);
    let data = stream.data();
    assert!(range.start <= data.start && data.start <= data.end && data.end <= range.end);
    let Some(dtype) = stream.dtype() else {
        return;
    };
    let mut found = vec![0; usize::try_from(data.end - data.start).expect("it is in memory")];
    stream
        .read_data(&bytes, &mut found)
        .expect("it is in memory");
    // Verifying the stream may fail, but must not panic.
    let _ = stream.verify(&bytes);
    let spec = match kind {
        StreamKind::SelectedRows => {
            let rows = stream.rows(&bytes).expect("they are in memory");
            TensorSpec::selected_rows(dtype, stream.dims(), rows, stream.height())
        }
        _ => TensorSpec::dense(dtype, stream.dims())
            .lod(stream.lod(&bytes).expect("it is in memory")),
    };
    let mut written = Vec::new();
    write_stream(&mut written, &spec, layout, &mut &found[..])
        .expect("a stream that was read can be written");
    let again =
        Stream::read(&written, 0, kind, layout).expect("a stream that was written can be read");
    // The bytes may differ, since a description has several valid encodings.
    assert_eq!(
        (again.dtype(), again.dims()),
        (stream.dtype(), stream.dims())
    );
    let of = |stream: &Stream, bytes: &[u8]| {
        let bytes = &bytes;
        (
            stream.lod(bytes).ok(),
            stream.rows(bytes).ok(),
            stream.height(),
        )
    };
    assert_eq!(of(&again, &written), of(&stream, bytes));
}
