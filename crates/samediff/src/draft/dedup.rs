//! Deduplication of equal arrays in a draft.

use std::collections::HashMap;

use super::{Content, Draft, DraftFile, FileIndex};
use crate::array::header;
use crate::layout::Role;
use crate::{Array, Result};

impl Draft {
    /// Makes equal arrays share one file. Files with the same size and checksum are compared byte
    /// by byte if their arrays have the same type and shape. For an array that isn't in a file yet,
    /// the checksum is only computed if another array's file has the same size.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if an array can't be read; any error in the
    /// archives.
    pub fn deduplicate(&mut self) -> Result<()> {
        let referenced = self.referenced();
        let mut lens: HashMap<(Role, u64), u64> = HashMap::new();
        for &index in &referenced {
            let file = self.file(index);
            *lens.entry((file.role, file_len(file)?)).or_default() += 1;
        }
        let mut by_print: HashMap<Print, Vec<FileIndex>> = HashMap::new();
        let mut instead: Vec<FileIndex> = (0..self.files.len()).map(FileIndex).collect();
        for index in referenced {
            let file = self.file(index);
            let (role, len) = (file.role, file_len(file)?);
            if lens.get(&(role, len)).is_none_or(|&count| count < 2) {
                continue;
            }
            let array = file.array()?;
            let crc = match &file.content {
                Content::Entry(archive, index) => archive.record(*index).crc,
                _ => checksum(array)?,
            };
            let alike = by_print.entry(Print { role, len, crc }).or_default();
            let mut same = None;
            for &other in alike.iter() {
                let other_array = self.file(other).array()?;
                if array.written_info() == other_array.written_info()
                    && array.equals(other_array)?
                {
                    same = Some(other);
                    break;
                }
            }
            match same {
                Some(other) => instead[index.0] = other,
                None => alike.push(index),
            }
        }
        for tag in &mut self.tags {
            for role in Role::ALL {
                for item in tag.items_mut(role) {
                    item.files
                        .iter_mut()
                        .for_each(|file| *file = instead[file.0]);
                }
            }
        }
        Ok(())
    }

    /// Returns the files that occur in the lists of the tags, without duplicates. The files of the
    /// oldest tag come first.
    fn referenced(&self) -> Vec<FileIndex> {
        let mut all = Vec::new();
        let mut seen = vec![false; self.files.len()];
        for tag in &self.tags {
            for role in Role::ALL {
                for item in tag.items(role) {
                    let new = item.files.iter();
                    all.extend(new.filter(|file| !std::mem::replace(&mut seen[file.0], true)));
                }
            }
        }
        all
    }
}

/// Properties that two files must have in common before their arrays are compared.
#[derive(PartialEq, Eq, Hash)]
struct Print {
    role: Role,
    len: u64,
    crc: u32,
}

/// Returns the size of an array's file, in bytes. If the file isn't written yet, this is its future
/// size.
fn file_len(file: &DraftFile) -> Result<u64> {
    Ok(match &file.content {
        Content::Entry(archive, index) => archive.record(*index).len,
        Content::Bytes(bytes) => bytes.len() as u64,
        Content::Array(array) => {
            let header = header(&array.written_info(), array.data_len())?;
            header.len() as u64 + array.data_len()
        }
    })
}

/// Returns the checksum that an array's file will have when it is written.
fn checksum(array: &Array) -> Result<u32> {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&header(&array.written_info(), array.data_len())?);
    let data = array.little_endian()?;
    data.for_each_piece(&mut vec![0; 256 << 10], |piece| {
        crc.update(piece);
        Ok(())
    })?;
    Ok(crc.finalize())
}
