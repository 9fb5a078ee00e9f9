//! A type with a field of every kind.

use std::sync::LazyLock;

use prost_reflect::prost::Message;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, MessageOptions, OneofDescriptorProto,
};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use proto_splitter_core::schema::decode_descriptor_set;

fn field(name: &str, number: i32, label: Label, kind: Type, of: &str) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(kind.into()),
        type_name: (!of.is_empty()).then(|| format!(".t.{of}")),
        ..Default::default()
    }
}

/// Returns the type `t.T`:
///
/// ```text
/// int32 i32 = 1;  sint32 s32 = 2;  float f = 3;  double d = 4;  bool b = 5;  E e = 6;  string s = 7;  bytes y = 8;  T m = 9;
/// repeated T r = 10;  repeated string rs = 11;  repeated int32 ri = 12;
/// map<string, T> ms = 13;  map<int32, T> mi = 14;  map<int64, T> ml = 15;  map<uint32, T> mu = 16;  map<uint64, T> mv = 17;
/// map<bool, T> mb = 18;  map<sint32, T> mz = 19;  map<fixed64, T> mx = 20;  map<string, string> mss = 21;
/// map<string, int32> msi = 22;
/// oneof o { T om = 30;  string os = 31;  int32 oi = 32;  T on = 23; }
/// group G = 33 { like T };  uint64 u64 = 34;  fixed32 x32 = 35;  int64 i64 = 36;  repeated bytes ry = 37;
/// ```
pub fn descriptor() -> MessageDescriptor {
    // Messages are equal only if their types are from one pool.
    static DESCRIPTOR: LazyLock<MessageDescriptor> = LazyLock::new(build);
    DESCRIPTOR.clone()
}

fn build() -> MessageDescriptor {
    use Label::{Optional, Repeated};
    let mut fields = vec![
        field("i32", 1, Optional, Type::Int32, ""),
        field("s32", 2, Optional, Type::Sint32, ""),
        field("f", 3, Optional, Type::Float, ""),
        field("d", 4, Optional, Type::Double, ""),
        field("b", 5, Optional, Type::Bool, ""),
        field("e", 6, Optional, Type::Enum, "E"),
        field("s", 7, Optional, Type::String, ""),
        field("y", 8, Optional, Type::Bytes, ""),
        field("m", 9, Optional, Type::Message, "T"),
        field("r", 10, Repeated, Type::Message, "T"),
        field("rs", 11, Repeated, Type::String, ""),
        field("ri", 12, Repeated, Type::Int32, ""),
        field("g", 33, Optional, Type::Group, "G"),
        field("u64", 34, Optional, Type::Uint64, ""),
        field("x32", 35, Optional, Type::Fixed32, ""),
        field("i64", 36, Optional, Type::Int64, ""),
        field("ry", 37, Repeated, Type::Bytes, ""),
    ];
    let oneof = [
        ("om", 30, Type::Message, "T"),
        ("os", 31, Type::String, ""),
        ("oi", 32, Type::Int32, ""),
        ("on", 23, Type::Message, "T"),
    ];
    for (name, number, kind, of) in oneof {
        let member = field(name, number, Optional, kind, of);
        fields.push(FieldDescriptorProto {
            oneof_index: Some(0),
            ..member
        });
    }
    let maps = [
        ("ms", 13, Type::String, Type::Message),
        ("mi", 14, Type::Int32, Type::Message),
        ("ml", 15, Type::Int64, Type::Message),
        ("mu", 16, Type::Uint32, Type::Message),
        ("mv", 17, Type::Uint64, Type::Message),
        ("mb", 18, Type::Bool, Type::Message),
        ("mz", 19, Type::Sint32, Type::Message),
        ("mx", 20, Type::Fixed64, Type::Message),
        ("mss", 21, Type::String, Type::String),
        ("msi", 22, Type::String, Type::Int32),
    ];
    let mut nested_type = Vec::new();
    for (name, number, key, value) in maps {
        let entry = format!("{}Entry", name[..1].to_uppercase() + &name[1..]);
        let of = if value == Type::Message { "T" } else { "" };
        nested_type.push(DescriptorProto {
            name: Some(entry.clone()),
            field: vec![
                field("key", 1, Optional, key, ""),
                field("value", 2, Optional, value, of),
            ],
            options: Some(MessageOptions {
                map_entry: Some(true),
                ..Default::default()
            }),
            ..Default::default()
        });
        fields.push(field(
            name,
            number,
            Repeated,
            Type::Message,
            &format!("T.{entry}"),
        ));
    }
    let group = DescriptorProto {
        name: Some("G".into()),
        field: vec![
            field("i32", 1, Optional, Type::Int32, ""),
            field("y", 8, Optional, Type::Bytes, ""),
        ],
        ..Default::default()
    };
    let message = DescriptorProto {
        name: Some("T".into()),
        field: fields,
        nested_type,
        oneof_decl: vec![OneofDescriptorProto {
            name: Some("o".into()),
            options: None,
        }],
        ..Default::default()
    };
    let value = |name: &str, number| EnumValueDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        options: None,
    };
    let kinds = EnumDescriptorProto {
        name: Some("E".into()),
        value: vec![value("E_NONE", 0), value("E_SIX", 6), value("E_MINUS", -1)],
        ..Default::default()
    };
    let file = FileDescriptorProto {
        name: Some("t.proto".into()),
        package: Some("t".into()),
        syntax: Some("proto2".into()),
        message_type: vec![message, group],
        enum_type: vec![kinds],
        ..Default::default()
    };
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_proto(file).unwrap();
    pool.get_message_by_name("t.T").unwrap()
}

/// Parses a `t.T` in protobuf's text format.
pub fn text(text: &str) -> DynamicMessage {
    DynamicMessage::parse_text_format(descriptor(), text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Decodes a `t.T`.
pub fn message(bytes: &[u8]) -> DynamicMessage {
    DynamicMessage::decode(descriptor(), bytes).unwrap()
}

/// Reads types from the text format of a `FileDescriptorSet`.
pub fn pool_of(text: &str) -> DescriptorPool {
    let set = DescriptorPool::global()
        .get_message_by_name("google.protobuf.FileDescriptorSet")
        .unwrap();
    let set = DynamicMessage::parse_text_format(set, text).unwrap();
    decode_descriptor_set(&set.encode_to_vec()).unwrap()
}
