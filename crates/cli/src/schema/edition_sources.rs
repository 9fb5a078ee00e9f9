//! Compiling sources that use editions, which the compiler of `.proto` files doesn't support.
//!
//! Each source is rewritten to proto2 before it is compiled. Its descriptor is then marked with the
//! edition, so that features apply as in a schema that protoc compiled.

mod draft;
mod rewrite;
mod tokens;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use prost_reflect::prost::Message;
use prost_reflect::prost_types::FileDescriptorSet;
use prost_reflect::{DynamicMessage, ReflectMessage, Value};
use protox::file::{File, FileResolver, IncludeFileResolver};

use rewrite::{Rewritten, rewrite};

/// Field numbers of `FileDescriptorSet` and `FileDescriptorProto`.
mod field {
    pub(super) const FILE: u32 = 1;
    pub(super) const NAME: u32 = 1;
    pub(super) const SYNTAX: u32 = 12;
    pub(super) const EDITION: u32 = 14;
}

/// The sources that a compiler has opened and that use editions, rewritten to proto2. The keys are
/// import paths.
#[derive(Clone, Debug, Default)]
pub(super) struct EditionSources(Rc<RefCell<BTreeMap<String, Rewritten>>>);

impl EditionSources {
    /// Returns a resolver that finds sources in a folder, and rewrites those that use editions.
    pub(super) fn in_folder(&self, folder: &Path) -> impl FileResolver + 'static {
        Folder {
            folder: folder.to_owned(),
            sources: IncludeFileResolver::new(folder.to_owned()),
            editions: self.clone(),
        }
    }

    /// Rewrites and parses a source. Returns `None` if the source doesn't use an edition.
    pub(super) fn open(&self, name: &str, source: &str) -> Option<Result<File, protox::Error>> {
        let rewritten = match rewrite(source) {
            Ok(rewritten) => rewritten?,
            Err(error) => return Some(Err(protox::Error::new(format!("{name}:{error}")))),
        };
        let file = File::from_source(name, &rewritten.text);
        self.0.borrow_mut().insert(name.to_owned(), rewritten);
        Some(file)
    }

    /// Sets the edition of each file in a descriptor set that was compiled from one of these
    /// sources.
    pub(super) fn mark(&self, set: Vec<u8>) -> Result<Vec<u8>, String> {
        let editions = self.0.borrow();
        if editions.is_empty() {
            return Ok(set);
        }
        let descriptor = FileDescriptorSet::default().descriptor();
        let mut set = DynamicMessage::decode(descriptor, set.as_slice())
            .map_err(|error| format!("no file descriptor set: {error}"))?;
        let files = set.get_field_by_number_mut(field::FILE);
        let files = files.and_then(Value::as_list_mut).into_iter().flatten();
        for file in files.filter_map(Value::as_message_mut) {
            let name = file.get_field_by_number(field::NAME);
            let name = name.as_deref().and_then(Value::as_str).unwrap_or_default();
            let Some(edition) = editions.get(name).map(|source| source.edition) else {
                continue;
            };
            for (number, value) in [
                (field::SYNTAX, Value::String("editions".to_owned())),
                (field::EDITION, Value::EnumNumber(edition)),
            ] {
                file.try_set_field_by_number(number, value)
                    .map_err(|error| format!("no file descriptor: {error}"))?;
            }
        }
        Ok(set.encode_to_vec())
    }

    /// Returns the text of an error from the compiler, with the column in the rewritten text
    /// replaced by the column in the source.
    pub(super) fn in_source(&self, error: &protox::Error) -> String {
        let said = format!("{error:?}");
        let in_source = || {
            let file = error.file()?;
            let editions = self.0.borrow();
            let rest = said.strip_prefix(file)?.strip_prefix(':')?;
            let (line, rest) = rest.split_once(':')?;
            let (column, rest) = rest.split_once(':')?;
            let insertions = &editions.get(file)?.insertions;
            let column = insertions.original_column(line.parse().ok()?, column.parse().ok()?);
            Some(format!("{file}:{line}:{column}:{rest}"))
        };
        in_source().unwrap_or(said)
    }
}

/// A folder to search for sources, including those that use editions.
struct Folder {
    folder: PathBuf,
    sources: IncludeFileResolver,
    editions: EditionSources,
}

impl FileResolver for Folder {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        self.sources.resolve_path(path)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let refused = match self.sources.open_file(name) {
            Err(error) if error.is_parse() => error,
            opened => return opened,
        };
        let Ok(source) = fs::read_to_string(self.folder.join(name)) else {
            return Err(refused);
        };
        self.editions.open(name, &source).unwrap_or(Err(refused))
    }
}
