//! Reads arbitrary bytes as a sequence of messages, which are delimited or in records, in the form
//! of one message, and writes its elements as a sequence again.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use proto_splitter_core::formats::{Candidate, Format, OpenOptions};
use proto_splitter_core::progress::Progress;
use proto_splitter_fuzz::records;
use proto_splitter_sequences::{Elements, Root, Sequence, SequenceFormat};
use record_file::ReadAt;

fuzz_target!(|data: &[u8]| {
    let (root, progress) = (Root::untyped(), Progress::default());
    for bytes in [data.to_vec(), records(data)] {
        let source: Arc<dyn ReadAt> = Arc::new(bytes.clone());
        let input = Candidate::of_source("a.log".as_ref(), Arc::clone(&source));
        if let Ok(opened) = SequenceFormat.open(&input.expect("it has a size"), &OpenOptions::new())
        {
            let _ = opened.verify();
        }
        let Ok(sequence) = Sequence::open(source, &root, &progress) else {
            continue;
        };
        let is_delimited = !sequence.is_checked();
        let mut message = vec![0; usize::try_from(sequence.size().expect("known")).expect("small")];
        if sequence.read_exact_at(0, &mut message).is_err() {
            continue;
        }
        let elements = Elements::new(Arc::new(message), root.number());
        let mut again = Vec::new();
        let written = elements.write_delimited(&mut again, &progress);
        assert_eq!(
            written.expect("a sequence has only its elements"),
            sequence.len()
        );
        assert!(!is_delimited || again == bytes);
    }
});
