//! Typed messages decoded in parts, beside what prost makes of them.

use std::num::NonZeroUsize;

use prost::Message;
use prost_reflect::ReflectMessage;
use proto_splitter::ErrorKind;
use proto_splitter::SavedModelSplitter;
use proto_splitter::decode::{DecodeOptions, InParts, decode_with};
use proto_splitter::merge::{MergeOptions, Merger};
use proto_splitter::proto::graph_def::GraphDef;
use proto_splitter::proto::saved_model::{MetaGraphDef, SavedModel};
use proto_splitter::split::{ComposableSplitter, SplitOptions};
use proto_splitter_testkit::generate::{Habits, Order, Random, message};

/// How many messages of each type are made.
const CASES: u64 = 40;

#[test]
fn any_message_is_decoded_in_parts_as_prost_decodes_it() {
    for seed in 0..CASES {
        check::<GraphDef>(seed);
        check::<MetaGraphDef>(seed);
        check::<SavedModel>(seed);
    }
}

fn check<M: InParts + ReflectMessage>(seed: u64) {
    let random = &mut Random::new(seed);
    let habits = Habits {
        order: *random.choose(&[Order::Ascending, Order::Descending, Order::Shuffled]),
        odd_wire: random.one_in(2),
        repeats: random.one_in(2),
        size: 200 << random.below(8),
    };
    let bytes = message(&M::default().descriptor(), random, &habits);
    compare::<M>(&bytes, random);
    for _ in 0..8 {
        let end = usize::try_from(random.below(bytes.len() as u64)).unwrap();
        compare::<M>(&bytes[..end], random);
        let mut changed = bytes.clone();
        changed[end] ^= 1 << random.below(8);
        compare::<M>(&changed, random);
    }
}

/// Both decode it to the same message, or fail with the same words. Messages are compared as bytes:
/// a NaN isn't equal to itself.
fn compare<M: InParts>(bytes: &[u8], random: &mut Random) {
    let expected = M::decode(bytes).map(|message| message.encode_to_vec());
    let block_size = *random.choose(&[1, 10, 100, 1000]);
    for threads in [1, 2, 5] {
        let threads = NonZeroUsize::new(threads).unwrap();
        let options = DecodeOptions::new().threads(threads).block_size(block_size);
        match (&expected, decode_with::<M>(bytes.to_vec(), &options)) {
            (Ok(expected), Ok(found)) => assert!(*expected == found.encode_to_vec()),
            (Err(expected), Err(found)) => {
                assert_eq!(found.kind(), ErrorKind::InvalidMessage);
                assert!(
                    found.to_string().ends_with(&expected.to_string()),
                    "{found}"
                );
            }
            (expected, found) => panic!("{:?} and {:?}", expected.is_ok(), found.is_ok()),
        }
    }
}

#[test]
fn a_chunked_model_is_read_in_parts() {
    let random = &mut Random::new(7);
    let type_of = SavedModel::default().descriptor();
    let bytes = message(&type_of, random, &Habits::plain(200_000));
    let expected = SavedModel::decode(&bytes[..]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("saved_model");
    let options = SplitOptions::new().max_chunk_size(50_000);
    let written = SavedModelSplitter.write_with(&expected, &prefix, &options);
    assert!(written.unwrap().is_split);
    for threads in [1, 3] {
        let options = MergeOptions::new().threads(NonZeroUsize::new(threads).unwrap());
        let found: SavedModel = Merger::read_in_parts(&prefix, &options).unwrap();
        assert!(found.encode_to_vec() == expected.encode_to_vec());
    }
}
