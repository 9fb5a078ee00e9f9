//! Meta graphs and their content, which are located without reading the whole model.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use proto_splitter_core::{Error, ErrorKind, Result};
use proto_splitter_graph_def::proto::{DataType, FunctionDef, TensorShapeProto};
use record_file::ReadAt;

use crate::hashed::Canonical;
use crate::proto::{AssetFileDef, SavedVariable, SignatureDef, VariableDef};

/// A named message in a model, such as a signature. The location of the message is known, and its
/// bytes are read on demand.
#[derive(Clone)]
pub struct Lazy<M> {
    name: String,
    data: Arc<dyn ReadAt>,
    pieces: Vec<Range<u64>>,
    message: PhantomData<fn() -> M>,
}

impl<M> fmt::Debug for Lazy<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.name, self.size())
    }
}

impl<M: Message + Default> Lazy<M> {
    /// Reads the message.
    ///
    /// # Errors
    ///
    /// Fails if reading fails, or the message can't be decoded.
    pub fn read(&self) -> Result<M> {
        decode(&self.bytes()?).map_err(|error| error.context(&self.name))
    }
}

impl<M> Lazy<M> {
    /// Returns the message's name, such as the key of a signature or the name of a function.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the size of the message, in bytes.
    pub fn size(&self) -> u64 {
        self.pieces
            .iter()
            .map(|piece| piece.end - piece.start)
            .sum()
    }

    /// Reads the serialized message.
    ///
    /// # Errors
    ///
    /// Fails if reading fails, or the bytes don't fit in memory.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        read(&*self.data, &self.pieces)
    }
}

/// A meta graph of a model, which is read on demand.
#[derive(Clone)]
pub struct MetaGraph {
    data: Arc<dyn ReadAt>,
    size: u64,
    folder: PathBuf,
    index: usize,
    range: Range<u64>,
    tags: Vec<String>,
}

/// A variable of a model: its declaration, without its value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelVariable {
    /// Name of the variable.
    pub name: String,
    /// Type of the variable's elements; `None` in a TensorFlow 1 model, which doesn't record the
    /// type.
    pub dtype: Option<DataType>,
    /// Shape of the variable; `None` in a TensorFlow 1 model, which doesn't record the shape.
    pub shape: Option<TensorShapeProto>,
    /// True if training changes the variable.
    pub trainable: bool,
}

/// An asset of a model: a file that the graph reads, such as a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asset {
    /// Path of the asset file, relative to the assets folder, as the model stores it.
    pub file_name: String,
    /// Name of the tensor that is set to the asset file's path when the model is loaded.
    pub tensor_name: String,
    /// Path of the asset file in the file system.
    pub path: PathBuf,
}

impl fmt::Debug for MetaGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "meta graph {} {:?} of {} bytes",
            self.index,
            self.tags,
            self.size()
        )
    }
}

/// Locates the meta graphs of the model in the `size` bytes of `data`.
pub(super) fn meta_graphs(
    data: &Arc<dyn ReadAt>,
    size: u64,
    folder: &Path,
) -> Result<Vec<MetaGraph>> {
    let mut reader = Canonical::new(&**data, size);
    let whole = reader.whole();
    let mut found = Vec::new();
    for (index, range) in reader.pieces(&whole, META_GRAPHS)?.into_iter().enumerate() {
        let tags = reader.path(std::slice::from_ref(&range), &[META_INFO_DEF, TAGS])?;
        found.push(MetaGraph {
            data: data.clone(),
            size,
            folder: folder.to_owned(),
            index,
            range,
            tags: tags
                .into_iter()
                .map(|tag| text(&mut reader, tag))
                .collect::<Result<_>>()?,
        });
    }
    Ok(found)
}

impl MetaGraph {
    /// Returns the meta graph's index in the model.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the meta graph's tags, by which callers choose the meta graph to load.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Returns true if the meta graph has exactly these tags, in any order.
    pub fn has_tags<T: AsRef<str>>(&self, tags: &[T]) -> bool {
        let sorted = |tags: &mut dyn Iterator<Item = &str>| {
            let mut tags: Vec<String> = tags.map(str::to_owned).collect();
            tags.sort();
            tags.dedup();
            tags
        };
        sorted(&mut self.tags.iter().map(String::as_str))
            == sorted(&mut tags.iter().map(AsRef::as_ref))
    }

    /// Returns the size of the meta graph, in bytes.
    pub fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Returns the signatures, by name.
    ///
    /// # Errors
    ///
    /// Fails if reading fails, or the model is malformed.
    pub fn signatures(&self) -> Result<BTreeMap<String, Lazy<SignatureDef>>> {
        let mut reader = self.reader();
        let found = reader.string_map(self.pieces(), SIGNATURE_DEF)?;
        let signatures = found.into_iter().map(|(name, pieces)| {
            let name = String::from_utf8_lossy(&name).into_owned();
            (name.clone(), self.lazy(name, pieces))
        });
        Ok(signatures.collect())
    }

    /// Returns the functions in the meta graph's library, in the model's order.
    ///
    /// # Errors
    ///
    /// Fails if reading fails, or the model is malformed.
    pub fn functions(&self) -> Result<Vec<Lazy<FunctionDef>>> {
        let mut reader = self.reader();
        let functions = reader.path(self.pieces(), &[GRAPH_DEF, LIBRARY, FUNCTION])?;
        let mut found = Vec::with_capacity(functions.len());
        for function in functions {
            let name = reader
                .path(std::slice::from_ref(&function), &[SIGNATURE, NAME])?
                .pop();
            let name = text(&mut reader, name.unwrap_or(0..0))?;
            found.push(self.lazy(name, vec![function]));
        }
        Ok(found)
    }

    /// Returns the variables: those in the object graph or, in a TensorFlow 1 model, those in the
    /// collections.
    ///
    /// # Errors
    ///
    /// Fails if reading fails, or the model is malformed.
    pub fn variables(&self) -> Result<Vec<ModelVariable>> {
        let mut reader = self.reader();
        let range = self.pieces();
        let mut found = Vec::new();
        for object in reader.path(range, &[OBJECT_GRAPH_DEF, NODES])? {
            let pieces = reader.pieces(&[object], VARIABLE)?;
            if !pieces.is_empty() {
                let variable: SavedVariable = decode(&read(&*self.data, &pieces)?)?;
                found.push(ModelVariable {
                    dtype: Some(variable.dtype()),
                    name: variable.name,
                    shape: variable.shape,
                    trainable: variable.trainable,
                });
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
        let mut seen = std::collections::BTreeSet::new();
        let collections = reader.string_map(range, COLLECTION_DEF)?;
        for name in [
            "variables",
            "local_variables",
            "model_variables",
            "trainable_variables",
        ] {
            let Some(pieces) = collections.get(name.as_bytes()) else {
                continue;
            };
            for value in reader.path(pieces, &[BYTES_LIST, VALUE])? {
                let variable: VariableDef = decode(&read(&*self.data, &[value])?)?;
                if seen.insert(variable.variable_name.clone()) {
                    found.push(ModelVariable {
                        name: variable.variable_name,
                        dtype: None,
                        shape: None,
                        trainable: variable.trainable,
                    });
                }
            }
        }
        Ok(found)
    }

    /// Returns the asset files that the meta graph needs.
    ///
    /// # Errors
    /// Fails if reading fails or the model is malformed; [`ErrorKind::InvalidPath`] if a file name
    /// points outside the assets folder.
    pub fn assets(&self) -> Result<Vec<Asset>> {
        let mut found = Vec::new();
        for range in self.reader().pieces(self.pieces(), ASSET_FILE_DEF)? {
            let asset: AssetFileDef = decode(&read(&*self.data, &[range])?)?;
            let components = Path::new(&asset.filename).components();
            let mut strange = components.filter(|part| !matches!(part, Component::Normal(_)));
            if asset.filename.is_empty() || strange.next().is_some() {
                let name = asset.filename.escape_debug();
                let message = format!("the asset `{name}` is outside the assets folder");
                return Err(Error::new(ErrorKind::InvalidPath, message));
            }
            found.push(Asset {
                path: self.folder.join("assets").join(&asset.filename),
                file_name: asset.filename,
                tensor_name: asset.tensor_info.map(name_of).unwrap_or_default(),
            });
        }
        Ok(found)
    }

    fn pieces(&self) -> &[Range<u64>] {
        std::slice::from_ref(&self.range)
    }

    fn reader(&self) -> Canonical<'_> {
        Canonical::new(&*self.data, self.size)
    }

    fn lazy<M>(&self, name: String, pieces: Vec<Range<u64>>) -> Lazy<M> {
        Lazy {
            name,
            data: self.data.clone(),
            pieces,
            message: PhantomData,
        }
    }
}

const META_GRAPHS: u32 = 2;
const META_INFO_DEF: u32 = 1;
const TAGS: u32 = 4;
const GRAPH_DEF: u32 = 2;
const LIBRARY: u32 = 2;
const FUNCTION: u32 = 1;
const SIGNATURE: u32 = 1;
const NAME: u32 = 1;
const COLLECTION_DEF: u32 = 4;
const BYTES_LIST: u32 = 2;
const VALUE: u32 = 1;
const SIGNATURE_DEF: u32 = 5;
const ASSET_FILE_DEF: u32 = 6;
const OBJECT_GRAPH_DEF: u32 = 7;
const NODES: u32 = 1;
const VARIABLE: u32 = 7;

fn name_of(tensor: crate::proto::TensorInfo) -> String {
    match tensor.encoding {
        Some(crate::proto::tensor_info::Encoding::Name(name)) => name,
        _ => String::new(),
    }
}

fn text(reader: &mut Canonical<'_>, range: Range<u64>) -> Result<String> {
    Ok(String::from_utf8_lossy(reader.bytes(range)?).into_owned())
}

fn read(data: &dyn ReadAt, pieces: &[Range<u64>]) -> Result<Vec<u8>> {
    let size: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
    let mut bytes = Vec::new();
    let reserved = usize::try_from(size)
        .ok()
        .map(|size| bytes.try_reserve_exact(size));
    if !matches!(reserved, Some(Ok(()))) {
        let message = format!("{size} bytes don't fit in memory");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    for piece in pieces {
        let start = bytes.len();
        // The conversion to `usize` can't fail, since the size of all pieces together fits.
        bytes.resize(
            start + usize::try_from(piece.end - piece.start).unwrap_or(0),
            0,
        );
        data.read_exact_at(piece.start, &mut bytes[start..])?;
    }
    Ok(bytes)
}

fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M> {
    M::decode(bytes).map_err(|error| Error::new(ErrorKind::InvalidMessage, error.to_string()))
}
