//! Random message types with every kind of field, in proto2, proto3 and editions.

use std::collections::BTreeSet;
use std::fmt::Write;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use proto_splitter_core::schema::decode_descriptor_set;

use crate::generate::Random;

/// Randomly generated message types.
#[derive(Clone)]
pub struct Schema {
    /// `FileDescriptorSet` of the types in text format, for investigating test failures.
    pub text: String,
    /// Message type to use in tests. It may refer to the other types.
    pub root: MessageDescriptor,
}

// `Debug` isn't derived, since that of a descriptor recurses endlessly if the message type contains
// itself.
impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The protobuf syntax of a file.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Proto2,
    Proto3,
    Edition,
}

const SCALARS: [&str; 15] = [
    "DOUBLE", "FLOAT", "INT64", "UINT64", "INT32", "FIXED64", "FIXED32", "BOOL", "STRING", "BYTES",
    "UINT32", "SFIXED32", "SFIXED64", "SINT32", "SINT64",
];

/// All scalar types that a map key can have.
const KEYS: [&str; 12] = [
    "INT64", "UINT64", "INT32", "FIXED64", "FIXED32", "BOOL", "STRING", "UINT32", "SFIXED32",
    "SFIXED64", "SINT32", "SINT64",
];

/// Generates one or two .proto files with up to six message types each. The types refer to each
/// other and to themselves.
///
/// # Panics
///
/// If prost-reflect rejects the types, which would be a bug in this function.
pub fn schema(random: &mut Random) -> Schema {
    let mut text = String::new();
    let mut types = Vec::new();
    if random.one_in(3) {
        let level = level(random);
        file(&mut text, random, level, "imported", &mut types);
    }
    let level = level(random);
    file(&mut text, random, level, "main", &mut types);
    let pool = pool_of(&text);
    let root = pool.get_message_by_name("main.M0").expect("the first type");
    Schema { text, root }
}

/// Reads types from the text format of a `FileDescriptorSet`, as a user's schema is read.
///
/// # Panics
///
/// Panics if the text isn't a valid schema.
pub fn pool_of(text: &str) -> DescriptorPool {
    let set = DescriptorPool::global()
        .get_message_by_name("google.protobuf.FileDescriptorSet")
        .expect("it is well known");
    let set = DynamicMessage::parse_text_format(set, text)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    decode_descriptor_set(&set.encode_to_vec()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn level(random: &mut Random) -> Level {
    *random.choose(&[Level::Proto2, Level::Proto3, Level::Edition])
}

/// A message type whose definition isn't generated yet.
struct Type {
    name: String,
    full_name: String,
    parent: Option<usize>,
}

fn file(text: &mut String, random: &mut Random, level: Level, name: &str, types: &mut Vec<String>) {
    let mut own: Vec<Type> = Vec::new();
    for index in 0..=random.below(5) {
        let parent = (random.one_in(3) && !own.is_empty())
            .then(|| usize::try_from(random.below(own.len() as u64)).expect("small"));
        let scope = parent.map_or(name, |parent| &own[parent].full_name);
        let full_name = format!("{scope}.M{index}");
        types.push(full_name.clone());
        own.push(Type {
            name: format!("M{index}"),
            full_name,
            parent,
        });
    }
    let mut extensions = String::new();
    let mut bodies = Vec::new();
    for of in &own {
        let mut writer = Writer {
            random: &mut *random,
            level,
            file: name,
            types,
        };
        let mut body = writer.body();
        if level != Level::Proto3 && writer.random.one_in(2) {
            body.push_str("extension_range { start: 1000 end: 1100 }\n");
            for number in 1000..=1000 + writer.random.below(3) {
                let number = u32::try_from(number).expect("small");
                let extension = writer.plain_field(number, &format!("x{}_{number}", of.name), None);
                let extendee = format!("extendee: '.{}'", of.full_name);
                writeln!(extensions, "extension {{ {extendee} {extension} }}").expect("in memory");
            }
        }
        bodies.push(body);
    }
    // Processes nested types first, since the definition of a type includes those of its nested
    // types.
    for index in (0..own.len()).rev() {
        let (name, body) = (&own[index].name, &bodies[index]);
        match own[index].parent {
            Some(parent) => {
                let nested = format!("nested_type {{ name: '{name}'\n{body} }}\n");
                bodies[parent].push_str(&nested);
            }
            None => bodies[index] = format!("message_type {{ name: '{name}'\n{body} }}\n"),
        }
    }
    let syntax = match level {
        Level::Proto2 => "syntax: 'proto2'".to_owned(),
        Level::Proto3 => "syntax: 'proto3'".to_owned(),
        Level::Edition => {
            let features = features(random);
            format!("syntax: 'editions' edition: EDITION_2023 options {{ {features} }}")
        }
    };
    let import = if name == "main" && types.iter().any(|name| name.starts_with("imported.")) {
        "dependency: 'imported.proto'"
    } else {
        ""
    };
    let top = own
        .iter()
        .zip(&bodies)
        .filter(|(of, _)| of.parent.is_none());
    let top: String = top.map(|(_, body)| body.as_str()).collect();
    let shade = "enum_type { name: 'Shade' value { name: 'LIGHT' number: 0 } value { name: 'DARK' number: 1 } \
                 value { name: 'NONE' number: -1 } }";
    writeln!(
        text,
        "file {{ name: '{name}.proto' package: '{name}' {syntax} {import}\n{shade}\n{top}{extensions}}}"
    )
    .expect("in memory");
}

/// Returns random features for a field or file that uses an edition: the encoding of repeated
/// fields and of message fields.
fn features(random: &mut Random) -> String {
    let mut features = String::new();
    if random.one_in(2) {
        let encoding = random.choose(&["PACKED", "EXPANDED"]);
        features.push_str(&format!("repeated_field_encoding: {encoding} "));
    }
    if random.one_in(2) {
        let encoding = random.choose(&["DELIMITED", "LENGTH_PREFIXED"]);
        features.push_str(&format!("message_encoding: {encoding} "));
    }
    format!("features {{ {features}}}")
}

struct Writer<'a> {
    random: &'a mut Random,
    level: Level,
    file: &'a str,
    /// Full names of all message types.
    types: &'a [String],
}

impl Writer<'_> {
    /// Generates the fields of a message type, its oneofs, and the entry types of its maps.
    fn body(&mut self) -> String {
        let mut text = String::new();
        let mut numbers = BTreeSet::new();
        for _ in 0..=self.random.below(9) {
            numbers.insert(self.number());
        }
        let oneofs = self.random.below(3);
        let mut used: Vec<u64> = Vec::new();
        let mut optional: Vec<u32> = Vec::new();
        for number in numbers {
            let name = format!("f{number}");
            if self.random.one_in(4) {
                text.push_str(&self.map(number, &name));
                continue;
            }
            let mut place = None;
            if oneofs > 0 && self.random.one_in(3) {
                let oneof = self.random.below(oneofs);
                let index = used.iter().position(|&known| known == oneof);
                place = Some(index.unwrap_or_else(|| {
                    used.push(oneof);
                    used.len() - 1
                }));
            }
            if place.is_none() && self.level == Level::Proto3 && self.random.one_in(6) {
                optional.push(number);
                continue;
            }
            let field =
                self.plain_field(number, &name, place.map(|at| format!("oneof_index: {at}")));
            writeln!(text, "field {{ {field} }}").expect("in memory");
        }
        for at in 0..used.len() {
            writeln!(text, "oneof_decl {{ name: 'o{at}' }}").expect("in memory");
        }
        // A proto3 optional field is alone in a oneof, which must follow the declared oneofs.
        for (at, number) in (used.len()..).zip(optional) {
            let alone = format!("oneof_index: {at} proto3_optional: true");
            let field = self.plain_field(number, &format!("f{number}"), Some(alone));
            writeln!(
                text,
                "field {{ {field} }} oneof_decl {{ name: '_f{number}' }}"
            )
            .expect("in memory");
        }
        text
    }

    /// Returns a random field number. It is often small, but numbers for tags of every length
    /// occur. Numbers of extensions, and those that protobuf reserves, don't occur.
    fn number(&mut self) -> u32 {
        let (from, to) = *self.random.choose(&[
            (1, 15),
            (1, 15),
            (16, 999),
            (2048, 18_999),
            (20_000, 536_870_911),
        ]);
        from + u32::try_from(self.random.below(u64::from(to - from + 1))).expect("small")
    }

    /// Generates a field that isn't a map. If it is in a oneof, it isn't repeated.
    fn plain_field(&mut self, number: u32, name: &str, oneof: Option<String>) -> String {
        let label = match (self.random.below(5), &oneof, self.level) {
            (0 | 1, None, _) => "REPEATED",
            (2, None, Level::Proto2) if !name.starts_with('x') => "REQUIRED",
            _ => "OPTIONAL",
        };
        let mut options = String::new();
        let kind = match self.random.below(8) {
            0..=2 => self.message_kind(&mut options),
            3 => {
                self.packing(label, &mut options);
                format!("type: TYPE_ENUM type_name: '.{}.Shade'", self.file)
            }
            4 => format!("type: TYPE_{}", self.random.choose(&["BYTES", "STRING"])),
            _ => {
                let kind = *self.random.choose(&SCALARS);
                if !matches!(kind, "BYTES" | "STRING") {
                    self.packing(label, &mut options);
                }
                format!("type: TYPE_{kind}")
            }
        };
        let oneof = oneof.unwrap_or_default();
        format!(
            "name: '{name}' number: {number} label: LABEL_{label} {kind} {oneof} options {{ {options} }}"
        )
    }

    fn message_kind(&mut self, options: &mut String) -> String {
        let name = self.random.choose(self.types);
        let group = self.level == Level::Proto2 && self.random.one_in(3);
        if self.level == Level::Edition && self.random.one_in(2) {
            options.push_str(&features(self.random));
        }
        let kind = if group { "GROUP" } else { "MESSAGE" };
        format!("type: TYPE_{kind} type_name: '.{name}'")
    }

    fn packing(&mut self, label: &str, options: &mut String) {
        if label != "REPEATED" {
            return;
        }
        match self.level {
            Level::Edition => options.push_str(&features(self.random)),
            _ if self.random.one_in(2) => {
                let packed = self.random.one_in(2);
                options.push_str(&format!("packed: {packed}"));
            }
            _ => {}
        }
    }

    /// Generates a map field, and the message type of its entries.
    fn map(&mut self, number: u32, name: &str) -> String {
        let key = *self.random.choose(&KEYS);
        let value = match self.random.below(3) {
            0 => format!("type: TYPE_{}", self.random.choose(&SCALARS)),
            1 if self.random.one_in(3) => {
                format!("type: TYPE_ENUM type_name: '.{}.Shade'", self.file)
            }
            _ => format!(
                "type: TYPE_MESSAGE type_name: '.{}'",
                self.random.choose(self.types)
            ),
        };
        let entry = format!("F{number}Entry");
        format!(
            "field {{ name: '{name}' number: {number} label: LABEL_REPEATED type: TYPE_MESSAGE type_name: '{entry}' }}
            nested_type {{ name: '{entry}' options {{ map_entry: true }}
              field {{ name: 'key' number: 1 label: LABEL_OPTIONAL type: TYPE_{key} }}
              field {{ name: 'value' number: 2 label: LABEL_OPTIONAL {value} }} }}\n"
        )
    }
}
