//! Test data: sequences that are written without the crate's own code.

use std::sync::Arc;

use prost::Message;
use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::{MessageDescriptor, ReflectMessage};
use proto_splitter_core::progress::Progress;
use proto_splitter_core::wire::put_varint;
use proto_splitter_sequences::{Root, Sequence};
use record_file::{ReadAt, RecordWriter, WriterOptions};

/// Returns an encoded element, which is a file descriptor with a name of `name` bytes.
pub(crate) fn element(number: usize, name: usize) -> Vec<u8> {
    let fill = char::from(b'a' + u8::try_from(number % 26).unwrap());
    let file = FileDescriptorProto {
        name: (name > 0).then(|| fill.to_string().repeat(name)),
        ..FileDescriptorProto::default()
    };
    file.encode_to_vec()
}

/// Returns the message type of the elements.
pub(crate) fn element_type() -> MessageDescriptor {
    FileDescriptorProto::default().descriptor()
}

/// Returns encoded elements, each with a name of the given length.
pub(crate) fn elements(names: &[usize]) -> Vec<Vec<u8>> {
    let numbered = names.iter().enumerate();
    numbered
        .map(|(number, &name)| element(number, name))
        .collect()
}

pub(crate) fn delimited(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for element in elements {
        put_varint(&mut file, element.len() as u64);
        file.extend_from_slice(element);
    }
    file
}

pub(crate) fn records(elements: &[Vec<u8>], options: &str) -> Vec<u8> {
    let options: WriterOptions = options.parse().unwrap();
    let mut writer = RecordWriter::new(Vec::new(), options).unwrap();
    for element in elements {
        writer.write_record(element).unwrap();
    }
    writer.finish().unwrap()
}

/// Returns an encoded message that has the given elements in field 1.
pub(crate) fn message(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut message = Vec::new();
    for element in elements {
        message.push(0x0a);
        put_varint(&mut message, element.len() as u64);
        message.extend_from_slice(element);
    }
    message
}

pub(crate) fn open(file: Vec<u8>) -> proto_splitter_core::Result<Sequence> {
    Sequence::open(Arc::new(file), &Root::untyped(), &Progress::default())
}

pub(crate) fn read_all(source: &dyn ReadAt) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(source.size()?).unwrap()];
    source.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}
