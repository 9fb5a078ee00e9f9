//! Reads arbitrary bytes as XLA files: as the records of a split proto, as a whole split proto, and
//! as a profile.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use proto_splitter_core::formats::{Candidate, Format, OpenOptions};
use proto_splitter_fuzz::{plant_fixtures, records};
use proto_splitter_xla::{Draft, ProfileDraft, ProfileFormat, SplitProto, XlaFormat};
use record_file::ReadAt;

fuzz_target!(init: plant_fixtures("split_proto", "xla", &["aot", "pb", "riegeli"]), |data: &[u8]| {
    for bytes in [data.to_vec(), records(data)] {
        let source: Arc<dyn ReadAt> = Arc::new(bytes);
        if let Ok(Some(split)) = SplitProto::recognize(Arc::clone(&source), None) {
            let mut message = vec![0; usize::try_from(split.total_size()).expect("small")];
            if split.message().read_exact_at(0, &mut message).is_ok() {
                let name = split.manifest().message_type();
                let _ = Draft::new(Arc::new(message), name);
            }
            let _ = split.findings();
        }
        let named = [
            (&XlaFormat as &dyn Format, "a.hlo.pb"),
            (&XlaFormat, "a.riegeli"),
            (&ProfileFormat, "a.xplane.pb"),
            (&ProfileFormat, "a.xplane.riegeli"),
        ];
        for (format, name) in named {
            let input = Candidate::of_source(name.as_ref(), Arc::clone(&source));
            let input = input.expect("it has a size");
            format.recognize(&input);
            if let Ok(opened) = format.open(&input, &OpenOptions::new()) {
                let _ = opened.tensors();
                let _ = opened.canonical().map(|canonical| canonical.bytes());
                let _ = opened.verify();
            }
        }
        let _ = ProfileDraft::new(source);
    }
});
