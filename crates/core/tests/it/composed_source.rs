//! Tests of splitting a source that is read from several files: an output never replaces any of
//! them, and none is taken for an older form of the output.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::merge_support::len;
use crate::merge_support::schema::descriptor;
use proto_splitter_core::ErrorKind;
use proto_splitter_core::merge::Merger;
use proto_splitter_core::spans::SpansBuilder;
use proto_splitter_core::split::{SizeSplitter, Source, SplitExt, SplitOptions};

/// Writes a message to two files, of which `first` is one, and returns the message and two sources
/// that are composed of these files.
fn composed(first: &Path) -> (Vec<u8>, [Source; 2]) {
    let second = first.with_extension("second");
    let parts = [len(8, vec![7; 3000]), len(7, "text")];
    let mut builder = SpansBuilder::new();
    for (path, bytes) in [first, &second].into_iter().zip(&parts) {
        fs::write(path, bytes).unwrap();
        let file = builder.open(path).unwrap();
        builder.span(file, 0..bytes.len() as u64).unwrap();
    }
    let message = parts.concat();
    let (data, size) = (Arc::new(message.clone()), message.len() as u64);
    let read = Source::from_reader(data, size, descriptor()).read_from([first, &second]);
    let spans = Arc::new(builder.finish().unwrap());
    (message, [read, Source::from_spans(spans, descriptor())])
}

#[test]
fn a_file_that_a_composed_source_is_read_from_stays_next_to_the_output() {
    for (kind, force) in [(0, false), (0, true), (1, false), (1, true)] {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("m");
        let first = folder.path().join("m.pb");
        let (message, sources) = composed(&first);
        let before = fs::read(&first).unwrap();
        let options = SplitOptions::new().max_chunk_size(1000).force(force);
        let written = SizeSplitter
            .write_with(&sources[kind], &prefix, &options)
            .unwrap();
        assert!(written.is_split && written.source_stays);
        assert_eq!(written.removed, None);
        assert_eq!(fs::read(&first).unwrap(), before);
        let merged = Merger::new().merge_to_bytes(&written.path).unwrap();
        assert_eq!(merged, message);
    }
}

#[test]
fn an_output_that_would_replace_a_file_of_a_composed_source_is_refused() {
    let whole = SplitOptions::new();
    let cut = SplitOptions::new().max_chunk_size(1000);
    for (name, options) in [("m.pb", whole), ("m.cpb", cut)] {
        for force in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let first = folder.path().join(name);
            let (_, sources) = composed(&first);
            let before = fs::read(&first).unwrap();
            let options = options.clone().force(force);
            for source in sources {
                let refused = SizeSplitter.write_with(source, folder.path().join("m"), &options);
                let error = refused.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidConfig);
                let expected = format!("refusing to overwrite the input {}", first.display());
                assert!(error.to_string().starts_with(&expected), "{error}");
                assert_eq!(fs::read(&first).unwrap(), before);
            }
        }
    }
}
