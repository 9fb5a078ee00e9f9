//! Tests of the fingerprints of chunked files with shapes that TensorFlow's fingerprint code treats
//! specially.
//!
//! The expected values are the results of TensorFlow 2.21's `CreateFingerprintDef` for these files.
//! An expected value of `None` means that this function fails or crashes.

use proto_splitter::directory::{FingerprintOutcome, rebuild};
use proto_splitter::fingerprint::FingerprintError;
use proto_splitter::proto::proto_splitter::field_index::{Kind, MapKey, map_key};
use proto_splitter::proto::proto_splitter::{
    ChunkInfo, ChunkMetadata, ChunkedField, ChunkedMessage, FieldIndex,
};
use proto_splitter::record_file::{Compression, RecordWriter, WriterOptions};
use proto_splitter::{Error, SaveOptions, SavedModelDir, fingerprint};

fn f(number: u32) -> FieldIndex {
    FieldIndex {
        kind: Some(Kind::Field(number)),
    }
}

fn i(index: u64) -> FieldIndex {
    FieldIndex {
        kind: Some(Kind::Index(index)),
    }
}

fn k(key: &str) -> FieldIndex {
    let r#type = Some(map_key::Type::S(key.into()));
    FieldIndex {
        kind: Some(Kind::MapKey(MapKey { r#type })),
    }
}

fn cm(chunk_index: Option<u64>, chunked_fields: Vec<ChunkedField>) -> ChunkedMessage {
    ChunkedMessage {
        chunk_index,
        chunked_fields,
    }
}

fn cf(field_tag: Vec<FieldIndex>, message: ChunkedMessage) -> ChunkedField {
    ChunkedField {
        field_tag,
        message: Some(message),
        ..Default::default()
    }
}

/// Returns the path to the graph of the first meta graph, as field tags.
fn g() -> Vec<FieldIndex> {
    vec![f(2), i(0), f(2)]
}

fn write(folder: &std::path::Path, chunks: &[&[u8]], message: ChunkedMessage) {
    let mut writer = RecordWriter::new(Vec::new(), WriterOptions::new()).unwrap();
    let mut metadata = ChunkMetadata {
        message: Some(message),
        ..Default::default()
    };
    for chunk in chunks {
        let position = writer.write_record_alone(chunk, Compression::None).unwrap();
        metadata.chunks.push(ChunkInfo {
            r#type: 1,
            size: chunk.len() as u64,
            offset: position.numeric(),
            crc32c: None,
            file: 0,
        });
    }
    let trailer = prost::Message::encode_to_vec(&metadata);
    writer
        .write_record_alone(&trailer, Compression::None)
        .unwrap();
    std::fs::write(folder.join("saved_model.cpb"), writer.finish().unwrap()).unwrap();
}

/// A serialized `SavedModel` with one node and one signature.
const BASE: &[u8] = b"\x08\x01\x12\x0e\x12\x05\x0a\x03\x0a\x01a\x2a\x05\x0a\x01s\x12\x00";
/// A serialized `GraphDef` with one node.
const NODE: &[u8] = b"\x0a\x05\x0a\x01b\x12\x00";
/// A serialized `FunctionDefLibrary` with one function.
const LIB: &[u8] = b"\x0a\x05\x0a\x03\x0a\x01f";
/// A serialized `MetaGraphDef` with one node in its graph.
const META: &[u8] = b"\x12\x05\x0a\x03\x0a\x01c";
/// A serialized `SavedModel` with a meta graph like [`META`].
const ROOT: &[u8] = b"\x12\x07\x12\x05\x0a\x03\x0a\x01d";
/// A serialized `SavedObjectGraph` with one node and one concrete function.
const OBJECTS: &[u8] = b"\x0a\x00\x12\x06\x0a\x02f_\x12\x00";
/// A serialized `SignatureDef`.
const SIGNATURE: &[u8] = b"\x1a\x03abc";

type Case = (
    &'static str,
    Vec<&'static [u8]>,
    ChunkedMessage,
    Option<[u64; 4]>,
);

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    vec![
        ("whole", vec![BASE, NODE], cm(Some(0), vec![cf(g(), cm(Some(1), vec![]))]),
            Some([16616925945074072809, 18006224823771969235, 12857913194502925467, 17454850744699451884])),
        ("twice", vec![BASE, NODE], cm(Some(0), vec![cf(g(), cm(Some(1), vec![])), cf(g(), cm(Some(1), vec![]))]),
            Some([10410718189587850662, 14589341061878371934, 12857913194502925467, 17454850744699451884])),
        ("nested slice", vec![BASE, NODE, NODE], cm(Some(0), vec![cf(g(), cm(Some(1), vec![cf(vec![], cm(Some(2), vec![]))]))]),
            Some([16616925945074072809, 9226387705268106514, 12857913194502925467, 17454850744699451884])),
        ("nested slice no chunk", vec![BASE, NODE], cm(Some(0), vec![cf(g(), cm(None, vec![cf(vec![], cm(Some(1), vec![]))]))]),
            Some([13400206571391713314, 13795230094526353371, 12857913194502925467, 17454850744699451884])),
        ("nested lib", vec![BASE, NODE, LIB], cm(Some(0), vec![cf(g(), cm(Some(1), vec![cf(vec![f(2)], cm(Some(2), vec![]))]))]),
            Some([16616925945074072809, 161818161824671715, 12857913194502925467, 17454850744699451884])),
        ("nested lib no chunk", vec![BASE, LIB], cm(Some(0), vec![cf(g(), cm(None, vec![cf(vec![f(2)], cm(Some(1), vec![]))]))]),
            Some([18027867905227268145, 8730246998813535761, 12857913194502925467, 17454850744699451884])),
        ("nested lib twice", vec![BASE, LIB], cm(Some(0), vec![cf(g(), cm(None, vec![cf(vec![f(2)], cm(Some(1), vec![])), cf(vec![f(2)], cm(Some(1), vec![]))]))]),
            None),
        ("nested node", vec![BASE, &b"\x0a\x01q"[..]], cm(Some(0), vec![cf(g(), cm(None, vec![cf(vec![f(1), i(0)], cm(Some(1), vec![]))]))]),
            Some([595729613390684106, 3733324317860948996, 12857913194502925467, 17454850744699451884])),
        ("nested fn", vec![BASE, LIB, &b"\x0a\x03\x0a\x01q"[..]], cm(Some(0), vec![cf(g(), cm(None, vec![cf(vec![f(2)], cm(Some(1), vec![])), cf(vec![f(2), f(1), i(0)], cm(Some(2), vec![]))]))]),
            Some([16373914284439388961, 8730246998813535761, 12857913194502925467, 17454850744699451884])),
        ("root slice", vec![BASE, ROOT], cm(Some(0), vec![cf(vec![], cm(Some(1), vec![]))]),
            Some([5561140753131404857, 3733324317860948996, 12543604167516076218, 5490406466802420153])),
        ("root slice and graph", vec![BASE, ROOT, NODE], cm(Some(0), vec![cf(vec![], cm(Some(1), vec![])), cf(g(), cm(Some(2), vec![]))]),
            Some([10986344635264363302, 7221064467812896325, 12543604167516076218, 5490406466802420153])),
        ("root slice nested", vec![BASE, ROOT, NODE], cm(Some(0), vec![cf(vec![], cm(Some(1), vec![cf(g(), cm(Some(2), vec![]))]))]),
            Some([5561140753131404857, 5129901802481205584, 12543604167516076218, 5490406466802420153])),
        ("meta graph", vec![BASE, META], cm(Some(0), vec![cf(vec![f(2), i(0)], cm(Some(1), vec![]))]),
            None),
        ("meta graph no sig", vec![&b"\x08\x01\x12\x00"[..], META], cm(Some(0), vec![cf(vec![f(2), i(0)], cm(Some(1), vec![]))]),
            None),
        ("meta graph nested no chunk", vec![BASE, NODE], cm(Some(0), vec![cf(vec![f(2), i(0)], cm(None, vec![cf(vec![f(2)], cm(Some(1), vec![]))]))]),
            Some([13400206571391713314, 12435601291142636662, 12543604167516076218, 5490406466802420153])),
        ("meta graph nested deep", vec![BASE, NODE], cm(Some(0), vec![cf(vec![f(2), i(0)], cm(None, vec![cf(vec![f(2)], cm(None, vec![cf(vec![], cm(Some(1), vec![]))]))]))]),
            Some([305680035808879811, 681391064871068036, 15845791409319040769, 14717964635094052824])),
        ("second meta graph", vec![BASE, META], cm(Some(0), vec![cf(vec![f(2), i(1)], cm(Some(1), vec![]))]),
            Some([4684254600048514654, 652384640784841761, 12857913194502925467, 17454850744699451884])),
        ("object graph", vec![BASE, OBJECTS], cm(Some(0), vec![cf(vec![f(2), i(0), f(7)], cm(Some(1), vec![]))]),
            Some([2485827156501316038, 652384640784841761, 12857913194502925467, 3084421371114344565])),
        ("object graph nested", vec![BASE, OBJECTS, OBJECTS], cm(Some(0), vec![cf(vec![f(2), i(0), f(7)], cm(Some(1), vec![cf(vec![], cm(Some(2), vec![]))]))]),
            Some([2485827156501316038, 652384640784841761, 12857913194502925467, 2729068379348038027])),
        ("object graph nested2", vec![BASE, OBJECTS], cm(Some(0), vec![cf(vec![f(2), i(0), f(7)], cm(None, vec![cf(vec![], cm(Some(1), vec![]))]))]),
            Some([9877579814593357819, 652384640784841761, 12857913194502925467, 18332625233970850774])),
        ("signature", vec![BASE, SIGNATURE], cm(Some(0), vec![cf(vec![f(2), i(0), f(5), k("s")], cm(Some(1), vec![]))]),
            Some([17887959466054059013, 652384640784841761, 892060843399966765, 17454850744699451884])),
        ("signature new", vec![BASE, SIGNATURE, SIGNATURE], cm(Some(0), vec![cf(vec![f(2), i(0), f(5), k("t")], cm(Some(1), vec![])), cf(vec![f(2), i(0), f(5), k("s")], cm(Some(1), vec![]))]),
            Some([13543408971144963447, 652384640784841761, 11783168068906051565, 17454850744699451884])),
        ("no base", vec![META, NODE], cm(None, vec![cf(vec![f(2), i(0), f(2)], cm(Some(1), vec![]))]),
            Some([16616925945074072809, 10227990351851733393, 0, 17454850744699451884])),
        ("no meta graph", vec![&b"\x08\x01"[..], NODE], cm(Some(0), vec![]),
            None),
        ("only base", vec![BASE], cm(Some(0), vec![]),
            Some([3816138472437182064, 652384640784841761, 12857913194502925467, 17454850744699451884])),
        ("two slices", vec![BASE, NODE, &b"\x0a\x03\x0a\x01z"[..]], cm(Some(0), vec![cf(g(), cm(Some(2), vec![])), cf(g(), cm(Some(1), vec![]))]),
            Some([13277179237594033652, 13879068262592697822, 12857913194502925467, 17454850744699451884])),
        ("deep first", vec![BASE, &b"\x0a\x01q"[..], NODE], cm(Some(0), vec![cf(vec![f(2), i(0), f(2), f(1), i(1)], cm(Some(1), vec![])), cf(g(), cm(Some(2), vec![]))]),
            Some([16517887227858787144, 11243443827497144014, 12857913194502925467, 17454850744699451884])),
    ]
}

#[test]
fn every_shape_has_the_fingerprint_that_tensorflow_gives_it_or_none() {
    for (name, chunks, message, expected) in cases() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &chunks, message);
        let found = SavedModelDir::open(folder.path()).unwrap().fingerprint();
        let found = match found {
            Ok(found) => Some([
                found.saved_model_checksum,
                found.graph_def_program_hash,
                found.signature_def_hash,
                found.saved_object_graph_hash,
            ]),
            Err(FingerprintError::Refused(_)) => None,
            Err(error) => panic!("{name}: {error}"),
        };
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn where_tensorflow_fails_that_is_said_and_the_stored_fingerprint_stays() {
    let temp = tempfile::tempdir().unwrap();
    let from = temp.path().join("from");
    std::fs::create_dir(&from).unwrap();
    let at_meta_graph = cm(Some(0), vec![cf(vec![f(2), i(0)], cm(Some(1), vec![]))]);
    write(&from, &[BASE, META], at_meta_graph);
    let stored = proto_splitter::proto::saved_model::FingerprintDef {
        uuid: fingerprint::new_uuid().unwrap(),
        checkpoint_hash: 1,
        ..Default::default()
    };
    fingerprint::write(&from, &stored).unwrap();
    let dir = SavedModelDir::open(&from).unwrap();
    let refused = dir.fingerprint().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "TensorFlow can't compute a fingerprint of this model: a chunk is above the graph, at meta_graphs[0] itself or next to it"
    );
    let to = temp.path().join("to");
    // A conversion would split the model again, into other chunks.
    let saved = rebuild(&from, &to, &SaveOptions::new(), |prefix| {
        std::fs::copy(from.join("saved_model.cpb"), prefix.with_extension("cpb"))
            .map_err(Error::from)
    })
    .unwrap();
    assert!(
        matches!(saved.fingerprint, FingerprintOutcome::Refused(_)),
        "{saved:?}"
    );
    assert_eq!(fingerprint::read(&to).unwrap().unwrap(), stored);
    // As a `saved_model.pb`, the same model has a fingerprint.
    let whole = temp.path().join("whole");
    let saved = dir.save(&whole, &SaveOptions::new()).unwrap();
    let FingerprintOutcome::Written(written) = saved.fingerprint else {
        panic!("{saved:?}");
    };
    assert_eq!(written.uuid, stored.uuid);
    assert_eq!(fingerprint::read(&whole).unwrap().unwrap(), written);
}
