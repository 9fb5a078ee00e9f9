use std::cell::Cell;
use std::fs;

use proto_splitter_core::formats::{Format, OpenOptions, Registry};

use crate::PaddleFormat;
use crate::proto::framework::var_type::Type;
use crate::stream::{Layout, TensorSpec, write_stream};

thread_local! {
    /// Number of parameters that this thread has got from an iterator over all of them.
    pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
}

#[test]
fn finding_parameters_by_counter_does_not_walk_those_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pdiparams");
    let mut bytes = Vec::new();
    let scalar = TensorSpec::dense(Type::Uint8, []);
    for at in 0..100 {
        write_stream(&mut bytes, &scalar, Layout::Paddle, &mut &[at][..]).unwrap();
    }
    fs::write(&path, bytes).unwrap();
    let formats = Registry::new(&[&PaddleFormat as &dyn Format]);
    let opened = formats.open(&path, &OpenOptions::new()).unwrap();
    assert_eq!(opened.tensors().unwrap().len(), 100);
    let before = STEPS.get();
    assert!(before >= 100);
    for at in 0..100_u8 {
        let found = opened.find_tensor(&at.to_string()).unwrap().unwrap();
        let read = opened.read_tensor(&found).unwrap();
        assert_eq!(read.to_vec().unwrap(), [at]);
    }
    assert_eq!(STEPS.get(), before);
}
