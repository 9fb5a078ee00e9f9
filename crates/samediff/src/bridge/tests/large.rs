//! Tests with content that is too large for a FlatBuffer. The content's size is declared, but the
//! content isn't written.

use std::io;

use record_file::ReadAt;

use super::*;
use crate::array::header;
use crate::{Array, Graph, ModelOptions, Nd4jType, SameDiffVariable, VarType, graph};

/// A source that consists of zeros, except for some byte ranges.
#[derive(Default)]
struct Sparse {
    pieces: Vec<(u64, Vec<u8>)>,
    size: u64,
}

impl Sparse {
    fn push(&mut self, bytes: Vec<u8>) {
        let at = self.size;
        self.size += bytes.len() as u64;
        self.pieces.push((at, bytes));
    }
}

impl ReadAt for Sparse {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap();
        let len = left.min(buf.len());
        buf[..len].fill(0);
        for (start, bytes) in &self.pieces {
            let from = offset.max(*start);
            let to = (offset + len as u64).min(start + bytes.len() as u64);
            if from < to {
                let at = |place: u64, start: u64| usize::try_from(place - start).unwrap();
                buf[at(from, offset)..at(to, offset)]
                    .copy_from_slice(&bytes[at(from, *start)..at(to, *start)]);
            }
        }
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}

/// Returns an archive of stored entries. Each entry is given by its name, its first bytes, and its
/// length. Zeros fill the rest of the entry.
fn archive(entries: Vec<(&str, Vec<u8>, u64)>) -> Sparse {
    let mut file = Sparse::default();
    let mut directory = Vec::new();
    let count = u16::try_from(entries.len()).unwrap();
    let short = |value: u16| value.to_le_bytes();
    let long = |value: u64| u32::try_from(value).unwrap().to_le_bytes();
    for (name, head, len) in entries {
        // The checksum doesn't cover the zeros, which are never read.
        let crc = crc32fast::hash(&head).to_le_bytes();
        let name_len = short(u16::try_from(name.len()).unwrap());
        let at = file.size;
        let mut common = [short(20), short(0), short(0), short(0), short(33)].concat();
        common.extend([crc, long(len), long(len)].concat());
        common.extend([name_len, short(0)].concat());
        let local = [&b"PK\x03\x04"[..], &common, name.as_bytes()].concat();
        file.push(local);
        let end = file.size + len;
        file.push(head);
        file.size = end;
        directory.extend([&b"PK\x01\x02"[..], &short(20), &common].concat());
        directory.extend([0; 10]);
        directory.extend(long(at));
        directory.extend(name.bytes());
    }
    let (start, len) = (file.size, directory.len() as u64);
    file.push(directory);
    let end = [
        &b"PK\x05\x06"[..],
        &[0; 4],
        &short(count),
        &short(count),
        &long(len),
        &long(start),
        &[0; 2],
    ];
    file.push(end.concat());
    file
}

/// Returns a model with arrays of these sizes, in bytes. All values are zero.
fn model_of(lens: &[u64]) -> Model {
    let mut graph = Graph::default();
    let mut lines = String::new();
    let mut arrays = Vec::new();
    for (number, &len) in lens.iter().enumerate() {
        let name = format!("w{number}");
        let dims = [i64::try_from(len).unwrap()];
        let variable = SameDiffVariable::new(&*name, VarType::Variable, Nd4jType::UInt8, dims);
        graph.variables.push(variable);
        lines += &format!("{name} {number}\n");
        let info = ArrayInfo::new(Nd4jType::UInt8, [len]).unwrap();
        let head = header(&info, len).unwrap_or_default();
        arrays.push((format!("t/params/{number}.fb"), head, len));
    }
    let whole = |bytes: Vec<u8>| {
        let len = bytes.len() as u64;
        (bytes, len)
    };
    let mut entries = Vec::new();
    for (name, bytes) in [
        ("tags.txt", b"t\n".to_vec()),
        ("t/graph.fb", graph::to_bytes(&graph).unwrap()),
        ("t/params.txt", lines.into_bytes()),
    ] {
        let (bytes, len) = whole(bytes);
        entries.push((name, bytes, len));
    }
    for (name, head, len) in &arrays {
        entries.push((name, head.clone(), head.len() as u64 + len));
    }
    Model::from_source(Arc::new(archive(entries)), &ModelOptions::new()).unwrap()
}

#[test]
fn a_model_over_2_gib_does_not_become_a_classic_file_and_it_is_said_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.fb");
    for lens in [&[1200 << 20; 2][..], &[1 << 30, 1 << 29, 1 << 29]] {
        let model = model_of(lens);
        let error =
            write_classic(&model.default_tag(), &path, &SameDiffWriteOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConvertible);
        let text = error.to_string();
        assert!(
            text.contains("a classic file, which is limited to 2 GiB"),
            "{text}"
        );
        let advice = "keep it as a zip archive, or convert it to safetensors";
        assert!(text.contains(advice), "{text}");
        // The failed export left no file.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_array_over_2_gib_in_an_archive_is_refused_and_it_is_said_what_to_do() {
    let largest = (1 << 31) - 1 - 128;
    for (len, fits) in [(largest, true), (1 << 31, false), (3 << 30, false)] {
        let model = model_of(&[len]);
        let tag = model.default_tag();
        let opened = tag.parameter("w0");
        if fits {
            assert_eq!(opened.unwrap().data_len(), len);
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.fb");
        let written = write_classic(&tag, path, &SameDiffWriteOptions::new());
        for error in [opened.unwrap_err(), written.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::ArrayTooLarge);
            assert_eq!(error.entry(), Some("t/params/0.fb"));
            let advice = "its writer has to cut it into several variables";
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}

#[test]
fn an_array_over_2_gib_behind_sdnb_is_refused_when_it_is_added() {
    let len = 1_u64 << 31;
    let mut variable = variable(1, "w", &[i64::try_from(len / 2).unwrap()], 0, &[], Some(0));
    let Some(Value::Table(array)) = variable.get_mut(flat_variable::NDARRAY) else {
        panic!("there is no array");
    };
    let appended = Value::I64(i64::try_from(len).unwrap());
    array.set(flat_array::APPENDED_DATA_LENGTH, appended);
    let mut graph = Object::default();
    graph.set(slots::VARIABLES, Value::Tables(vec![variable]));
    // The array is a hole in the file.
    let (graph, _) = fb::write(&graph).unwrap();
    let at = 32 + graph.len() as u64 + len;
    let mut head = b"SDNB\0\0\0\x01".to_vec();
    [at, 0, 32]
        .iter()
        .for_each(|word| head.extend(word.to_be_bytes()));
    head.extend(graph);
    let file = tempfile::Builder::new().suffix(".sdnb").tempfile().unwrap();
    std::fs::write(file.path(), head).unwrap();
    file.as_file().set_len(at).unwrap();

    let content = import(file.path()).unwrap();
    let arrays: Vec<&Array> = content.parameters().map(|(_, array)| array).collect();
    assert_eq!(arrays[0].data_len(), len);
    let error = Draft::new()
        .add_tag("t".parse().unwrap(), content)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ArrayTooLarge);
    let advice = "cut it into several variables, or convert the model to safetensors";
    assert!(error.to_string().contains(advice), "{error}");
}
