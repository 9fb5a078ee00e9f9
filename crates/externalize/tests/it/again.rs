//! Tests with folders that contained an externalized model before.

use std::fs;
use std::path::Path;

use prost::Message;
use proto_splitter_core::ErrorKind;
use proto_splitter_externalize::{ExternalizePlan, RECORD_FILE, internalize};
use proto_splitter_graph_def::proto::attr_value::Value;
use proto_splitter_graph_def::proto::{AttrValue, DataType, NodeDef, TensorProto};
use proto_splitter_saved_model::proto::saved_object::Kind;
use proto_splitter_saved_model::proto::tensor_info::Encoding;
use proto_splitter_saved_model::proto::trackable_object_graph::trackable_object::ObjectReference;
use proto_splitter_saved_model::proto::{
    AssetFileDef, SavedAsset, SavedBareConcreteFunction, SavedConcreteFunction, SavedModel,
    SavedObject, SavedObjectGraph, SavedResource, TensorInfo,
};
use proto_splitter_saved_model::{SaveOptions, SavedModelDir, TargetForm};
use proto_splitter_tensor_bundle::Bundle;

use crate::models::{call, constant, constant_of, function, model, shape};
use crate::{externalize, files, fixture, node, options, read_model, write_model};

const BUNDLE: [&str; 2] = [
    "assets/proto_splitter_constants.data-00000-of-00001",
    "assets/proto_splitter_constants.index",
];

/// Common prefix of the bundle's files.
const BUNDLE_PREFIX: &str = "assets/proto_splitter_constants";

/// Writes this model to a folder that has the files of an earlier externalized model, and returns
/// its path.
fn saved_over(folder: &Path, model: &SavedModel) -> std::path::PathBuf {
    let old = folder.join("old");
    externalize(&fixture("functions_consts"), &old).unwrap();
    fs::write(old.join("saved_model.pb"), model.encode_to_vec()).unwrap();
    let mapped = old.join("assets.extra/proto_splitter_mapped");
    fs::create_dir(&mapped).unwrap();
    fs::write(mapped.join("0123"), b"old").unwrap();
    fs::write(old.join("assets/words.txt"), b"kept").unwrap();
    old
}

#[test]
fn a_model_saved_over_an_externalized_one_takes_nothing_over_from_it() {
    let folder = tempfile::tempdir().unwrap();
    for (name, nodes) in [
        ("large", vec![constant("x", 1)]),
        ("small", vec![call("x", "NoOp", &[])]),
    ] {
        let folder = folder.path().join(name);
        fs::create_dir(&folder).unwrap();
        let old = saved_over(&folder, &model(nodes, Vec::new()));
        let out = folder.join("out");
        fs::create_dir(&out).unwrap();
        fs::write(out.join("saved_model.pb"), b"").unwrap();
        let forced = options().force(true);
        let plan = ExternalizePlan::new(&old, &forced).unwrap();
        let written = plan.write(&out).unwrap();
        assert_eq!(written.stale.len(), 4, "{:?}", written.stale);
        let mut expected = vec!["assets/words.txt", "saved_model.pb"];
        if name == "large" {
            expected.extend([BUNDLE[0], BUNDLE[1], RECORD_FILE]);
        }
        expected.sort_unstable();
        let mut found = files(&out);
        found.retain(|file| file != "fingerprint.pb" && !file.starts_with("variables"));
        assert_eq!(found, expected, "{name}");

        let written = plan.write_in_place().unwrap();
        assert_eq!(written.stale.len(), 4);
        let mut found = files(&old);
        found.retain(|file| file != "fingerprint.pb" && !file.starts_with("variables"));
        assert_eq!(found, expected, "{name} in place");
        if name == "large" {
            let stored = Bundle::open(old.join("assets/proto_splitter_constants")).unwrap();
            assert_eq!(stored.tensors().len(), 1);
        }
    }
}

#[test]
fn constants_that_a_killed_run_had_mapped_stay_if_the_next_run_maps_them() {
    let folder = tempfile::tempdir().unwrap();
    let (place, back) = (folder.path().join("place"), folder.path().join("back"));
    let source = fixture("functions_consts");
    let dir = SavedModelDir::open(&source).unwrap();
    dir.save_as(&place, TargetForm::Plain, &SaveOptions::new())
        .unwrap();
    let original = fs::read(place.join("saved_model.pb")).unwrap();
    let mapped = options().mapped(true);
    let in_place = || {
        let plan = ExternalizePlan::new(&place, &mapped).unwrap();
        plan.write_in_place().unwrap();
        files(&place)
    };
    let expected = in_place();
    // Leaves the files of a run that was killed before the last rename.
    fs::write(place.join("saved_model.pb"), &original).unwrap();
    let left = "assets.extra/proto_splitter_mapped/.protosplit-01234567-left.tmp";
    fs::write(place.join(left), b"half").unwrap();
    assert_eq!(in_place(), expected);
    internalize(&place, &back, &options()).unwrap();
    assert!(fs::read(back.join("saved_model.pb")).unwrap() == original);
}

#[test]
fn a_model_that_maps_its_constants_is_not_externalized_again_either() {
    let folder = tempfile::tempdir().unwrap();
    let small = TensorProto {
        dtype: DataType::DtFloat.into(),
        tensor_shape: shape(&[512]),
        tensor_content: vec![2; 2048].into(),
        ..TensorProto::default()
    };
    let nodes = vec![constant("x", 1), constant_of("y", small)];
    let place = write_model(folder.path(), &model(nodes, Vec::new()));
    let original = fs::read(place.join("saved_model.pb")).unwrap();
    let mapped = options().mapped(true);
    // The smaller constant stays in the model.
    let plan = ExternalizePlan::new(&place, &mapped.clone().min_size(4096)).unwrap();
    plan.write_in_place().unwrap();
    for again in [options(), mapped] {
        let error = ExternalizePlan::new(&place, &again).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
    let back = folder.path().join("back");
    internalize(&place, &back, &options()).unwrap();
    assert!(fs::read(back.join("saved_model.pb")).unwrap() == original);
}

#[test]
fn in_place_only_files_that_can_be_ours_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let place = saved_over(folder.path(), &model(Vec::new(), Vec::new()));
    let thesis = "assets.extra/proto_splitter_mapped/thesis.tex";
    fs::write(place.join(thesis), b"mine").unwrap();
    let plan = ExternalizePlan::new(&place, &options()).unwrap();
    plan.write_in_place().unwrap();
    let left = files(&place);
    assert!(left.iter().any(|file| file == thesis), "{left:?}");
    assert!(!left.iter().any(|file| file.ends_with("0123")), "{left:?}");
}

#[test]
fn a_plan_for_a_model_that_was_replaced_writes_and_removes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = saved_over(folder.path(), &model(Vec::new(), Vec::new()));
    let out = folder.path().join("out");
    let plan = ExternalizePlan::new(&place, &options()).unwrap();
    // Another process saves and externalizes another model, whose files have the names of those
    // that the plan would remove.
    let newer = model(vec![constant("x", 1)], Vec::new()).encode_to_vec();
    fs::write(place.join("saved_model.pb"), newer).unwrap();
    let other = ExternalizePlan::new(&place, &options()).unwrap();
    other.write_in_place().unwrap();
    let before = files(&place);
    assert!(BUNDLE.iter().all(|file| place.join(file).is_file()));
    for written in [plan.write(&out), plan.write_in_place()] {
        let error = written.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}");
    }
    assert_eq!(files(&place), before);
    assert!(!out.exists());
}

#[cfg(unix)]
#[test]
fn in_place_nothing_is_removed_from_a_folder_to_which_a_link_leads() {
    use std::os::unix::fs::symlink;
    for link in [
        "assets",
        "assets.extra",
        "assets.extra/proto_splitter_mapped",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let place = saved_over(folder.path(), &model(Vec::new(), Vec::new()));
        let (inside, outside) = (place.join(link), folder.path().join("outside"));
        fs::rename(&inside, &outside).unwrap();
        symlink(&outside, &inside).unwrap();
        let before = files(&outside);
        assert!(!before.is_empty());
        let plan = ExternalizePlan::new(&place, &options()).unwrap();
        // A copy contains no files of the earlier externalized model.
        let out = folder.path().join("out");
        assert_eq!(plan.write(&out).unwrap().stale.len(), 4, "{link}");
        let is_stale =
            |file: &String| BUNDLE.contains(&file.as_str()) || file.starts_with("assets.extra");
        assert!(!files(&out).iter().any(is_stale), "{link}");
        plan.write_in_place().unwrap();
        assert_eq!(files(&outside), before, "{link}");
    }
}

#[cfg(unix)]
#[test]
fn in_place_the_files_of_another_model_are_not_replaced_where_they_are_links_themselves() {
    use std::os::unix::fs::symlink;
    for linked in [&BUNDLE[..1], &BUNDLE[1..], &BUNDLE, &[RECORD_FILE]] {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = [1u8, 2].map(|fill| {
            let at = folder.path().join(fill.to_string());
            fs::create_dir(&at).unwrap();
            write_model(&at, &model(vec![constant("x", fill)], Vec::new()))
        });
        let original = fs::read(first.join("saved_model.pb")).unwrap();
        let plan = ExternalizePlan::new(&first, &options()).unwrap();
        plan.write_in_place().unwrap();
        for file in BUNDLE.iter().copied().chain([RECORD_FILE]) {
            let (from, to) = (first.join(file), second.join(file));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            if linked.contains(&file) {
                symlink(from, to).unwrap();
            } else {
                fs::copy(from, to).unwrap();
            }
        }
        let plan = ExternalizePlan::new(&second, &options()).unwrap();
        let error = plan.write_in_place().unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::AlreadyExists,
            "{linked:?}: {error}"
        );
        let back = folder.path().join("back");
        internalize(&first, &back, &options()).unwrap();
        assert!(
            fs::read(back.join("saved_model.pb")).unwrap() == original,
            "{linked:?}"
        );
    }
}

#[cfg(unix)]
#[test]
fn in_place_the_files_of_another_model_are_not_replaced_through_a_link() {
    use std::os::unix::fs::symlink;
    for link in ["assets", "assets.extra"] {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).unwrap();
        let [first, second] = [1u8, 2].map(|fill| {
            let at = folder.path().join(fill.to_string());
            fs::create_dir(&at).unwrap();
            let place = write_model(&at, &model(vec![constant("x", fill)], Vec::new()));
            symlink(&shared, place.join(link)).unwrap();
            place
        });
        let in_place = |place: &Path| {
            let plan = ExternalizePlan::new(place, &options()).unwrap();
            plan.write_in_place()
        };
        let original = fs::read(first.join("saved_model.pb")).unwrap();
        in_place(&first).unwrap();
        // A run that was killed before the last rename can be repeated.
        fs::write(first.join("saved_model.pb"), &original).unwrap();
        in_place(&first).unwrap();
        let error = in_place(&second).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{link}: {error}");
        let back = folder.path().join("back");
        internalize(&first, &back, &options()).unwrap();
        assert!(fs::read(back.join("saved_model.pb")).unwrap() == original);
    }
}

#[test]
fn in_place_the_externalized_form_of_another_model_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let of = |fill: u8| model(vec![constant("x", fill)], Vec::new());
    let place = write_model(folder.path(), &of(1));
    let first = ExternalizePlan::new(&place, &options()).unwrap();
    first.write_in_place().unwrap();
    let plain = place.join("saved_model.pb");
    let before = fs::read(&plain).unwrap();
    // Another model of the same size is saved in chunks.
    let (newer, chunked) = (folder.path().join("newer"), folder.path().join("chunked"));
    fs::create_dir(&newer).unwrap();
    fs::write(newer.join("saved_model.pb"), of(2).encode_to_vec()).unwrap();
    let newer = SavedModelDir::open(&newer).unwrap();
    newer
        .save_as_chunked(&chunked, &SaveOptions::new())
        .unwrap();
    let name = "saved_model.cpb";
    fs::copy(chunked.join(name), place.join(name)).unwrap();
    let second = ExternalizePlan::new(&place, &options()).unwrap();
    let error = second.write_in_place().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert!(fs::read(&plain).unwrap() == before);
}

fn object(kind: Kind) -> SavedObject {
    SavedObject {
        kind: Some(kind),
        ..SavedObject::default()
    }
}

fn child(name: &str, node_id: i32) -> ObjectReference {
    ObjectReference {
        local_name: name.to_owned(),
        node_id,
    }
}

/// Returns a model like those that TensorFlow saves after loading an externalized model: captured
/// constants are in the graph, and the bundle's files are assets that follow another asset.
fn saved_again() -> SavedModel {
    let nodes = vec![constant("Const_1", 1), call("path", "Placeholder", &[])];
    let initialize = function("__inference_initialize_7", Vec::new());
    let mut saved = model(nodes, vec![initialize]);
    let asset = |name: &str| AssetFileDef {
        filename: name.to_owned(),
        ..AssetFileDef::default()
    };
    let names = ["proto_splitter_constants.index", "words.txt"];
    let last = "proto_splitter_constants.data-00000-of-00001";
    let root = SavedObject {
        children: vec![child("_proto_splitter_constants", 1), child("words", 4)],
        ..SavedObject::default()
    };
    let mut resource = object(Kind::Resource(SavedResource::default()));
    resource.children = vec![child("_initialize", 2), child("_proto_splitter_index", 3)];
    let initialize = SavedBareConcreteFunction {
        concrete_function_name: "__inference_initialize_7".to_owned(),
        ..SavedBareConcreteFunction::default()
    };
    let asset_at = |at| {
        object(Kind::Asset(SavedAsset {
            asset_file_def_index: at,
        }))
    };
    let mut objects = SavedObjectGraph {
        nodes: vec![
            root,
            resource,
            object(Kind::BareConcreteFunction(initialize)),
            asset_at(0),
            asset_at(1),
            asset_at(2),
        ],
        ..SavedObjectGraph::default()
    };
    let bound = SavedConcreteFunction {
        bound_inputs: vec![3, 5],
        ..SavedConcreteFunction::default()
    };
    let functions = &mut objects.concrete_functions;
    functions.insert("__inference_initialize_7".to_owned(), bound);
    let meta_graph = &mut saved.meta_graphs[0];
    meta_graph.asset_file_def = [names[0], names[1], last].map(asset).to_vec();
    let path = Encoding::Name("path:0".to_owned());
    meta_graph.asset_file_def[0].tensor_info = Some(TensorInfo {
        encoding: Some(path),
        ..TensorInfo::default()
    });
    meta_graph.object_graph_def = Some(objects);
    saved
}

#[test]
fn a_model_that_was_saved_again_is_externalized_again_without_its_old_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_model(folder.path(), &saved_again());
    fs::create_dir(path.join("assets")).unwrap();
    for file in BUNDLE {
        fs::write(path.join(file), b"old").unwrap();
    }
    let (out, back) = (folder.path().join("out"), folder.path().join("back"));
    let written = externalize(&path, &out).unwrap();
    assert_eq!(written.stale.len(), 2);
    let after = read_model(&out);
    let meta_graph = &after.meta_graphs[0];
    let assets = meta_graph.asset_file_def.iter();
    let assets: Vec<&str> = assets.map(|asset| asset.filename.as_str()).collect();
    let index = "proto_splitter_constants.index";
    let data = "proto_splitter_constants.data-00000-of-00001";
    assert_eq!(assets, ["words.txt", index, data]);
    let nodes = &meta_graph.graph_def.as_ref().unwrap().node;
    assert_eq!(node(nodes, "path").op, "Const", "no loader feeds it");
    let objects = meta_graph.object_graph_def.as_ref().unwrap();
    assert!(
        !objects
            .concrete_functions
            .contains_key("__inference_initialize_7")
    );
    let kinds = [1, 2, 3, 5].map(|at| objects.nodes[at].kind.as_ref().unwrap());
    assert!(kinds.iter().all(|kind| matches!(kind, Kind::UserObject(_))));
    let words = objects.nodes[4].kind.as_ref().unwrap();
    assert!(matches!(words, Kind::Asset(asset) if asset.asset_file_def_index == 0));
    let bundles = objects.nodes[0].children.iter();
    let bundles = bundles.filter(|child| child.local_name == "_proto_splitter_constants");
    // There is only one bundle, which isn't the old one.
    let bundles: Vec<i32> = bundles.map(|child| child.node_id).collect();
    assert!(bundles.len() == 1 && bundles[0] > 5, "{bundles:?}");

    let error = externalize(&out, &back).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    internalize(&out, &back, &options()).unwrap();
    assert!(read_model(&back) == saved_again());
    // The constants of this model are in its graph, as in a model that was never externalized.
    let same = folder.path().join("same");
    let internalized = internalize(&path, &same, &options()).unwrap();
    assert_eq!(files(&internalized.path), files(&path));
}

/// Writes a model with a function that reads the first tensor of an old bundle, and the bundle, to
/// a folder. Returns the path of the model's folder, and the model.
fn reading_old_bundle(folder: &Path) -> (std::path::PathBuf, SavedModel) {
    let first = folder.join("first");
    externalize(&fixture("functions_consts"), &first).unwrap();
    let old = Bundle::open(first.join(BUNDLE_PREFIX)).unwrap();
    let key = old.tensors()[0].name();

    let mut read: NodeDef = call("read", "VarHandleOp", &[]);
    let name = Value::S(
        format!("proto_splitter_constants/{key}")
            .into_bytes()
            .into(),
    );
    let name = AttrValue { value: Some(name) };
    read.attr.insert("shared_name".to_owned(), Box::new(name));
    let mut saved = saved_again();
    let graph = saved.meta_graphs[0].graph_def.as_mut().unwrap();
    let functions = &mut graph.library.as_mut().unwrap().function;
    functions.push(function("__inference_reads_8", vec![read]));
    let path = write_model(folder, &saved);
    fs::create_dir(path.join("assets")).unwrap();
    for file in BUNDLE {
        fs::copy(first.join(file), path.join(file)).unwrap();
    }
    (path, saved)
}

#[cfg(unix)]
#[test]
fn an_output_made_from_an_old_bundle_is_as_private_as_the_bundle() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = reading_old_bundle(folder.path());
    let set = |file: &Path, mode| fs::set_permissions(file, fs::Permissions::from_mode(mode));
    let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
    set(&path.join(BUNDLE[0]), 0o600).unwrap();
    let (out, back) = (folder.path().join("out"), folder.path().join("back"));
    externalize(&path, &out).unwrap();
    assert_eq!(mode(&out.join(BUNDLE[0])), 0o600);
    // The original is read from the bundle, even if its record is public.
    set(&out.join(RECORD_FILE), 0o644).unwrap();
    internalize(&out, &back, &options()).unwrap();
    assert_eq!(mode(&back.join("saved_model.pb")), 0o600);
}

#[test]
fn tensors_of_an_old_bundle_that_functions_still_read_stay_in_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = reading_old_bundle(folder.path());
    let old = Bundle::open(path.join(BUNDLE_PREFIX)).unwrap();
    let key = old.tensors()[0].name();
    let out = folder.path().join("out");
    let written = externalize(&path, &out).unwrap();
    assert!(written.stale.is_empty());
    let new = Bundle::open(out.join(BUNDLE_PREFIX)).unwrap();
    assert_eq!(new.tensors().len(), old.tensors().len() + 1);
    let tensor = new.find(key).unwrap();
    assert_eq!(
        new.read(tensor).unwrap(),
        old.read(&old.tensors()[0]).unwrap()
    );
    let after = read_model(&out);
    let graph = after.meta_graphs[0].graph_def.as_ref().unwrap();
    assert_eq!(node(&graph.node, "Const_1").op, "Identity");

    let back = folder.path().join("back");
    internalize(&out, &back, &options()).unwrap();
    assert!(read_model(&back) == saved);
    let kept = Bundle::open(back.join(BUNDLE_PREFIX)).unwrap();
    assert!(kept.find(key).is_some(), "the original reads it");
}
