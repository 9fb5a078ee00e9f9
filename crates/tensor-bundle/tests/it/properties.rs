//! Tests that arbitrary tensors are unchanged after they are written and read.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proto_splitter_graph_def::proto::DataType;
use proto_splitter_tensor_bundle::{Bundle, BundleOptions, BundlePlan, NewTensor};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_tensors_come_back(
        tensors in prop::collection::btree_map("[a-z/\u{e4}\u{ff}]{1,12}", prop::collection::vec(any::<u16>(), 0..40), 0..80),
        shards in 1u32..5,
    ) {
        let tensors: BTreeMap<String, Vec<u8>> = tensors
            .into_iter()
            .map(|(name, values)| (name, values.iter().flat_map(|value| value.to_le_bytes()).collect()))
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("any");
        let new = tensors.iter().map(|(name, bytes)| {
            NewTensor::new(name, DataType::DtHalf, [bytes.len() as u64 / 2, 1], bytes)
        });
        BundlePlan::new(new.collect(), shards).unwrap().write(&prefix, &BundleOptions::new()).unwrap();
        let bundle = Bundle::open(&prefix).unwrap();
        bundle.verify(&BundleOptions::new()).unwrap();
        let read: BTreeMap<String, Vec<u8>> = bundle
            .tensors()
            .iter()
            .map(|tensor| (tensor.name().to_owned(), bundle.read(tensor).unwrap()))
            .collect();
        prop_assert_eq!(read, tensors);
    }
}
