//! Files of an externalized model in a folder to which a model was saved later.
//!
//! When TensorFlow loads and saves an externalized model, it puts captured constants back into the
//! graph, and copies the bundle, which contains the constants, as two assets that are never read.
//! If another model is saved over the folder of an externalized model, the files of the old model
//! remain there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::NodeDef;
use proto_splitter_graph_def::proto::attr_value::Value;
use proto_splitter_saved_model::proto::saved_object::Kind;
use proto_splitter_saved_model::proto::tensor_info::Encoding;
use proto_splitter_saved_model::proto::{MetaGraphDef, SavedModel, SavedObjectGraph};
use proto_splitter_saved_model::{ModelForm, SavedModelDir};
use proto_splitter_tensor_bundle::Bundle;

use crate::call_graph::{functions, nodes};
use crate::kept::is_content_name;
use crate::record::{MAPPED_FOLDER, RECORD_FILE, Record, bundle_files, bundle_prefix};
use crate::rewrite::{BUNDLE_NAME, CONSTANTS_OBJECT, INDEX_OBJECT, plain_object, strings};

/// The files that an earlier externalized model has left in a folder.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// Files of the earlier model that the current model doesn't read.
    pub(crate) stale: Vec<PathBuf>,
    /// Files of the earlier model's bundle, if the current model lists them as assets, but doesn't
    /// read them.
    pub(crate) unread: Vec<PathBuf>,
    /// Bundle of the earlier model; `None` unless functions of the current model still read it.
    pub(crate) bundle: Option<Bundle>,
}

impl Earlier {
    /// Looks for files of an earlier externalized model in the folder `dir`, which contains `model`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the model is externalized and hasn't been saved again since;
    /// any error if a file can't be read.
    pub(crate) fn find(dir: &SavedModelDir, model: &SavedModel) -> Result<Earlier> {
        let folder = dir.path();
        let is_named = model.meta_graphs.iter().any(names_bundle);
        let is_current = match Record::load(folder) {
            Ok(Some(record)) if folder.join("saved_model.pb").is_file() => {
                record.check_undamaged(folder)?;
                record.is_of(folder)?
            }
            Ok(_) => false,
            // If the model refers to the bundle, damage in the record is an error. Otherwise, the
            // record may be stale.
            Err(error) if is_named => return Err(error),
            Err(_) => false,
        };
        // An interrupted run in place leaves the original in chunks next to its externalized form,
        // which doesn't name a bundle if it maps its constants.
        let is_externalized = is_named || dir.form() == ModelForm::Plain;
        if is_current && is_externalized {
            let message = "the model is externalized already; internalize it first";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let mut earlier = Earlier::default();
        if is_current {
            return Ok(earlier);
        }
        let bundle = existing(bundle_files(folder).to_vec());
        if !is_named {
            earlier.stale.extend(bundle);
        } else if model.meta_graphs.iter().any(reads_bundle) {
            earlier.bundle = Some(Bundle::open(bundle_prefix(folder))?);
        } else {
            earlier.unread = bundle;
        }
        earlier
            .stale
            .extend(existing(vec![folder.join(RECORD_FILE)]));
        if !all_nodes(model).any(|node| node.op == "ImmutableConst") {
            let mapped = mapped_files(&folder.join(MAPPED_FOLDER));
            earlier.stale.extend(existing(mapped));
        }
        Ok(earlier)
    }
}

fn existing(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    files.retain(|file| file.is_file());
    files
}

/// Returns true unless a link below `folder` leads to the folder of `file`. Other models may use
/// such a folder, so its files must not be removed or replaced.
pub(crate) fn is_own(folder: &Path, file: &Path) -> bool {
    let is_folder =
        |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let above = file.ancestors().skip(1);
    let mut within = above.take_while(|path| *path != folder);
    within.all(is_folder)
}

/// Returns the files in `folder` that have the name of a mapped constant, or of a temporary file
/// for one. This crate writes no other files to `folder`.
fn mapped_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_ours = |name: &str| {
        is_content_name(name) || (name.starts_with(".protosplit-") && name.ends_with(".tmp"))
    };
    let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    ours.map(|entry| entry.path()).collect()
}

fn all_nodes(model: &SavedModel) -> impl Iterator<Item = &NodeDef> {
    model.meta_graphs.iter().flat_map(nodes)
}

/// Returns true if the bundle of an earlier externalized model is among the assets.
fn names_bundle(meta_graph: &MetaGraphDef) -> bool {
    let mut assets = meta_graph.asset_file_def.iter();
    assets.any(|asset| is_of_bundle(&asset.filename))
}

fn is_of_bundle(file: &str) -> bool {
    file.strip_prefix(BUNDLE_NAME)
        .is_some_and(|suffix| suffix == ".index" || suffix == ".data-00000-of-00001")
}

/// Returns true if the bundle of an earlier externalized model is among the assets, but no node
/// reads it.
pub(crate) fn has_unread_bundle(model: &SavedModel) -> bool {
    let named = model.meta_graphs.iter().any(names_bundle);
    named && !model.meta_graphs.iter().any(reads_bundle)
}

/// Returns true if a node reads the bundle of an earlier externalized model, or a variable with a
/// value from this bundle.
fn reads_bundle(meta_graph: &MetaGraphDef) -> bool {
    let is_variable = |node: &NodeDef| {
        let name = node.attr.get("shared_name");
        let name = name.and_then(|attr| attr.value.as_ref());
        let prefix = format!("{BUNDLE_NAME}/");
        node.op == "VarHandleOp"
            && matches!(name, Some(Value::S(name)) if name.starts_with(prefix.as_bytes()))
    };
    let is_prefix = |node: &NodeDef| node.op == "StaticRegexReplace";
    let restores = |node: &NodeDef| node.op == "RestoreV2";
    let functions = meta_graph.graph_def.iter().flat_map(functions);
    let mut bodies = functions.map(|function| &function.node_def);
    nodes(meta_graph).any(is_variable)
        || bodies.any(|nodes| nodes.iter().any(is_prefix) && nodes.iter().any(restores))
}

/// Removes a bundle that is no longer read from the assets of a model, and replaces the objects
/// that pass the bundle's path to a function. Nodes of the main graph that pass the path to a
/// function are kept, with an empty path, since the function no longer reads the bundle.
pub(crate) fn forget(model: &mut SavedModel) {
    for meta_graph in &mut model.meta_graphs {
        if !names_bundle(meta_graph) || reads_bundle(meta_graph) {
            continue;
        }
        let assets = std::mem::take(&mut meta_graph.asset_file_def);
        // New index of each asset; `None` for an asset that is removed.
        let mut places = Vec::with_capacity(assets.len());
        let mut unfed = BTreeSet::new();
        for asset in assets {
            let stays = !is_of_bundle(&asset.filename);
            places.push(stays.then_some(meta_graph.asset_file_def.len()));
            if stays {
                meta_graph.asset_file_def.push(asset);
            } else if let Some(Encoding::Name(name)) =
                asset.tensor_info.and_then(|info| info.encoding)
            {
                unfed.insert(name.strip_suffix(":0").unwrap_or(&name).to_owned());
            }
        }
        let graph = meta_graph.graph_def.iter_mut();
        for node in graph.flat_map(|graph| &mut graph.node) {
            // Since its asset is removed, loaders no longer feed a path to this node, so it becomes
            // a constant.
            if node.op == "Placeholder" && unfed.contains(&node.name) {
                let device = std::mem::take(&mut node.device);
                *node = NodeDef {
                    device,
                    ..strings(&node.name, &[""], &[])
                };
            }
        }
        if let Some(objects) = &mut meta_graph.object_graph_def {
            forget_objects(objects, &places);
        }
    }
}

/// Replaces the objects that pass the bundle's path to functions. The replacements have no
/// functions. Renumbers the remaining assets. `places` has the new index of each asset; `None` for
/// a removed asset.
fn forget_objects(objects: &mut SavedObjectGraph, places: &[Option<usize>]) {
    let mut gone: BTreeSet<usize> = BTreeSet::new();
    for (at, object) in objects.nodes.iter_mut().enumerate() {
        if let Some(Kind::Asset(asset)) = &mut object.kind {
            let place = usize::try_from(asset.asset_file_def_index).ok();
            match place.and_then(|place| places.get(place).copied()) {
                Some(Some(place)) => {
                    asset.asset_file_def_index = i32::try_from(place).unwrap_or(i32::MAX);
                }
                Some(None) => {
                    gone.insert(at);
                }
                None => {}
            }
        }
    }
    // Also removes the resource that passes the path to its functions, and these functions. The
    // resource is found by its child, since its name depends on the program that saved the model.
    let at = |id: i32| usize::try_from(id).unwrap_or(usize::MAX);
    let resources = objects.nodes.iter().enumerate().filter(|(_, object)| {
        let mut children = object.children.iter();
        children.any(|child| child.local_name == INDEX_OBJECT && gone.contains(&at(child.node_id)))
    });
    let resources: Vec<usize> = resources.map(|(at, _)| at).collect();
    for resource in resources {
        gone.insert(resource);
        let children = &objects.nodes[resource].children;
        gone.extend(children.iter().map(|child| at(child.node_id)));
    }
    let takes_path = |bound: &[i32]| bound.iter().any(|id| gone.contains(&at(*id)));
    let functions = objects.concrete_functions.iter();
    let functions = functions.filter(|(_, function)| takes_path(&function.bound_inputs));
    let functions: BTreeSet<String> = functions.map(|(name, _)| name.clone()).collect();
    for name in &functions {
        objects.concrete_functions.remove(name);
    }
    for (at, object) in objects.nodes.iter_mut().enumerate() {
        object
            .children
            .retain(|child| child.local_name != CONSTANTS_OBJECT);
        let is_gone = gone.contains(&at)
            || match &object.kind {
                Some(Kind::BareConcreteFunction(function)) => {
                    functions.contains(&function.concrete_function_name)
                }
                Some(Kind::Function(function)) => {
                    let mut names = function.concrete_functions.iter();
                    names.any(|name| functions.contains(name))
                }
                _ => false,
            };
        if is_gone {
            *object = plain_object();
        }
    }
}
