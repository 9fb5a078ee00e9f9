//! Printing descriptors as `.proto` text.

mod edition;

use std::fmt::Write;

use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, ExtensionDescriptor, FileDescriptor, Kind,
    MessageDescriptor, ServiceDescriptor, Syntax, Value,
};
use proto_splitter::schema::is_closed_enum;

use crate::text;
use edition::Features;

/// Exclusive end of the range of field numbers.
const MAX_FIELD: i32 = 1 << 29;

/// Returns the `.proto` text of a file. Compiling the text gives the same descriptor.
pub(super) fn file(file: &FileDescriptor) -> String {
    let proto = file.file_descriptor_proto();
    let mut printer = Printer {
        pool: file.parent_pool().clone(),
        language: match file.syntax() {
            Syntax::Proto3 => Language::Proto3,
            Syntax::Proto2 if edition::is_needed(proto) || edition::has_features(file) => {
                Language::Edition
            }
            Syntax::Proto2 => Language::Proto2,
        },
        text: String::new(),
        depth: 0,
    };
    printer.head(file, proto);
    for (message, nested) in file.messages().zip(&proto.message_type) {
        if !printer.is_group_of(&proto.extension, nested, message.full_name()) {
            printer.gap();
            printer.message(&message, nested);
        }
    }
    for (values, proto) in file.enums().zip(&proto.enum_type) {
        printer.gap();
        printer.enumeration(&values, proto);
    }
    let extensions = proto.extension.iter().zip(file.extensions());
    printer.extensions(extensions, proto.package(), &proto.message_type);
    for service in file.services() {
        printer.gap();
        printer.service(&service);
    }
    printer.text
}

/// The syntax in which a file is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Proto2,
    Proto3,
    /// Edition 2023, for a file with features that proto2 can't express.
    Edition,
}

struct Printer {
    pool: DescriptorPool,
    language: Language,
    text: String,
    depth: usize,
}

impl Printer {
    fn line(&mut self, text: impl std::fmt::Display) {
        // Writing to memory doesn't fail.
        let _ = writeln!(self.text, "{:indent$}{text}", "", indent = 2 * self.depth);
    }

    fn gap(&mut self) {
        self.text.push('\n');
    }

    fn open(&mut self, text: impl std::fmt::Display) {
        self.line(format_args!("{text} {{"));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    fn head(&mut self, file: &FileDescriptor, proto: &FileDescriptorProto) {
        self.line(match self.language {
            Language::Proto2 => "syntax = \"proto2\";",
            Language::Proto3 => "syntax = \"proto3\";",
            Language::Edition => "edition = \"2023\";",
        });
        if !proto.package().is_empty() {
            self.gap();
            self.line(format_args!("package {};", proto.package()));
        }
        if !proto.dependency.is_empty() {
            self.gap();
        }
        for (at, import) in (0..).zip(&proto.dependency) {
            let how = if proto.public_dependency.contains(&at) {
                "public "
            } else if proto.weak_dependency.contains(&at) {
                "weak "
            } else {
                ""
            };
            self.line(format_args!("import {how}\"{import}\";"));
        }
        let options = self.options(&file.options());
        if !options.is_empty() {
            self.gap();
        }
        self.statements(options);
    }

    fn message(&mut self, message: &MessageDescriptor, proto: &DescriptorProto) {
        self.open(format_args!("message {}", message.name()));
        self.body(message, proto);
        self.close();
    }

    /// Writes the contents of a message or group, without the braces.
    fn body(&mut self, message: &MessageDescriptor, proto: &DescriptorProto) {
        let options = self.options(&message.options());
        let options = options.into_iter().filter(|(name, _)| name != "map_entry");
        self.statements(options.collect());
        for (values, proto) in message.child_enums().zip(&proto.enum_type) {
            self.enumeration(&values, proto);
        }
        for (child, nested) in message.child_messages().zip(&proto.nested_type) {
            let is_group = self.is_group_of(&proto.field, nested, child.full_name())
                || self.is_group_of(&proto.extension, nested, child.full_name());
            if !child.is_map_entry() && !is_group {
                self.message(&child, nested);
            }
        }
        // A oneof is printed at the position of its first field.
        for (at, field) in proto.field.iter().enumerate() {
            let Some(oneof) = real_oneof(field) else {
                self.field(field, proto, message, "");
                continue;
            };
            if proto.field[..at]
                .iter()
                .any(|f| real_oneof(f) == Some(oneof))
            {
                continue;
            }
            let known = usize::try_from(oneof)
                .ok()
                .and_then(|oneof| message.oneofs().nth(oneof));
            let Some(known) = known else { continue };
            self.open(format_args!("oneof {}", known.name()));
            let options = self.options(&known.options());
            self.statements(options);
            for field in proto.field.iter().filter(|f| real_oneof(f) == Some(oneof)) {
                self.field(field, proto, message, "oneof");
            }
            self.close();
        }
        for range in &proto.extension_range {
            let range = span(range.start(), range.end(), MAX_FIELD);
            self.line(format_args!("extensions {range};"));
        }
        let reserved = proto.reserved_range.iter();
        let reserved = reserved.map(|range| span(range.start(), range.end(), MAX_FIELD));
        self.reserved(reserved.collect(), &proto.reserved_name);
        let extensions = proto.extension.iter().zip(message.child_extensions());
        self.extensions(extensions, message.full_name(), &proto.nested_type);
    }

    fn field(
        &mut self,
        field: &FieldDescriptorProto,
        parent: &DescriptorProto,
        message: &MessageDescriptor,
        place: &str,
    ) {
        let number = field.number().unsigned_abs();
        let Some(known) = message.get_field(number) else {
            return;
        };
        let options = self.field_options(field, &known.options(), Features::of_field(&known));
        let scope = message.full_name();
        if let (true, Kind::Message(entry)) = (known.is_map(), known.kind()) {
            let of = |name| entry.get_field_by_name(name);
            if let (Some(key), Some(value)) = (of("key"), of("value")) {
                let key = self.type_name(key.field_descriptor_proto(), scope);
                let value = self.type_name(value.field_descriptor_proto(), scope);
                let name = field.name();
                self.line(format_args!(
                    "map<{key}, {value}> {name} = {number}{options};"
                ));
                return;
            }
        }
        let label = if place == "oneof" {
            ""
        } else {
            self.label(field)
        };
        let group = match known.kind() {
            Kind::Message(group) if self.is_group(field) => Some(group),
            _ => None,
        };
        let group = group.as_ref().map(|group| {
            let mut nested = parent.nested_type.iter();
            (group, nested.find(|nested| nested.name() == group.name()))
        });
        self.member(field, label, &options, scope, group);
    }

    /// Writes a field or extension, which isn't a map. A group is given with its declaration.
    fn member(
        &mut self,
        field: &FieldDescriptorProto,
        label: &str,
        options: &str,
        scope: &str,
        group: Option<(&MessageDescriptor, Option<&DescriptorProto>)>,
    ) {
        let number = field.number();
        let Some((group, nested)) = group else {
            let (kind, name) = (self.type_name(field, scope), field.name());
            self.line(format_args!("{label}{kind} {name} = {number}{options};"));
            return;
        };
        let name = group.name();
        self.open(format_args!("{label}group {name} = {number}{options}"));
        if let Some(nested) = nested {
            self.body(group, nested);
        }
        self.close();
    }

    fn label(&self, field: &FieldDescriptorProto) -> &'static str {
        match (field.label(), self.language) {
            (Label::Repeated, _) => "repeated ",
            // In an edition, a feature takes the place of the label.
            (_, Language::Edition) => "",
            (Label::Required, _) => "required ",
            (Label::Optional, Language::Proto3) if !field.proto3_optional() => "",
            (Label::Optional, _) => "optional ",
        }
    }

    /// Writes extensions, in an `extend` block for each message that they extend.
    fn extensions<'a>(
        &mut self,
        extensions: impl Iterator<Item = (&'a FieldDescriptorProto, ExtensionDescriptor)>,
        scope: &str,
        nested: &[DescriptorProto],
    ) {
        let extensions: Vec<_> = extensions.collect();
        for of in extensions.chunk_by(|(a, ..), (b, ..)| a.extendee() == b.extendee()) {
            let extendee = self.shortest(of[0].0.extendee(), scope);
            if self.depth == 0 {
                self.gap();
            }
            self.open(format_args!("extend {extendee}"));
            for (field, known) in of {
                let features = Features::of_extension(known);
                let options = self.field_options(field, &known.options(), features);
                let group = nested.iter().find(|group| {
                    self.is_group(field)
                        && field.type_name().rsplit('.').next() == Some(group.name())
                });
                let full_name = field.type_name().trim_start_matches('.');
                let message = self.pool.get_message_by_name(full_name);
                let group = message.as_ref().zip(group.map(Some));
                self.member(field, self.label(field), &options, scope, group);
            }
            self.close();
        }
    }

    fn enumeration(&mut self, values: &EnumDescriptor, proto: &EnumDescriptorProto) {
        self.open(format_args!("enum {}", values.name()));
        let mut options = self.options(&values.options());
        if self.language == Language::Edition && is_closed_enum(values) {
            options.push(("features.enum_type".to_owned(), "CLOSED".to_owned()));
        }
        self.statements(options);
        // The declared order matters, since the first value is the default.
        for proto in &proto.value {
            let known = values.values().find(|value| value.name() == proto.name());
            let options = known.map_or(Vec::new(), |value| self.options(&value.options()));
            let (name, number) = (proto.name(), proto.number());
            self.line(format_args!("{name} = {number}{};", bracketed(&options)));
        }
        let ranges = proto.reserved_range.iter();
        // In the descriptor of an enum, the end of a range is inclusive.
        let ranges = ranges.map(|range| match (range.start(), range.end()) {
            (start, i32::MAX) => format!("{start} to max"),
            (start, end) if start == end => start.to_string(),
            (start, end) => format!("{start} to {end}"),
        });
        self.reserved(ranges.collect(), &proto.reserved_name);
        self.close();
    }

    fn service(&mut self, service: &ServiceDescriptor) {
        self.open(format_args!("service {}", service.name()));
        let options = self.options(&service.options());
        self.statements(options);
        for method in service.methods() {
            let stream = |is_stream| if is_stream { "stream " } else { "" };
            let scope = service.full_name();
            let input = self.shortest(method.input().full_name(), scope);
            let output = self.shortest(method.output().full_name(), scope);
            let head = format!(
                "rpc {}({}{input}) returns ({}{output})",
                method.name(),
                stream(method.is_client_streaming()),
                stream(method.is_server_streaming())
            );
            let options = self.options(&method.options());
            if options.is_empty() {
                self.line(format_args!("{head};"));
                continue;
            }
            self.open(head);
            self.statements(options);
            self.close();
        }
        self.close();
    }

    fn reserved(&mut self, ranges: Vec<String>, names: &[String]) {
        if !ranges.is_empty() {
            self.line(format_args!("reserved {};", ranges.join(", ")));
        }
        if !names.is_empty() {
            let shown = |name: &String| match self.language {
                Language::Edition => name.clone(),
                _ => format!("{name:?}"),
            };
            let names: Vec<String> = names.iter().map(shown).collect();
            self.line(format_args!("reserved {};", names.join(", ")));
        }
    }

    fn statements(&mut self, options: Vec<(String, String)>) {
        for (name, value) in options {
            self.line(format_args!("option {name} = {value};"));
        }
    }

    fn field_options(
        &self,
        field: &FieldDescriptorProto,
        options: &DynamicMessage,
        features: Features,
    ) -> String {
        let mut all = Vec::new();
        if let Some(default) = &field.default_value {
            let default = match field.r#type() {
                Type::String => text::scalar(&Value::String(default.clone()), &Kind::String),
                // A descriptor stores the default of a bytes field with escapes, so none are added.
                Type::Bytes => format!("\"{default}\""),
                _ => default.clone(),
            };
            all.push(("default".to_owned(), default));
        }
        if let Some(name) = &field.json_name
            && *name != json_name(field.name())
            && field.extendee.is_none()
        {
            let quoted = text::scalar(&Value::String(name.clone()), &Kind::String);
            all.push(("json_name".to_owned(), quoted));
        }
        all.extend(self.options(options));
        if self.language == Language::Edition {
            edition::say_as_features(field, features, &mut all);
        }
        bracketed(&all)
    }

    /// Returns the options that are set, by name, with their values as text.
    fn options(&self, options: &DynamicMessage) -> Vec<(String, String)> {
        let mut fields: Vec<_> = options.fields().collect();
        fields.sort_by_key(|(field, _)| field.number());
        let known = fields
            .into_iter()
            // Features are omitted, since they were translated to proto2 when the schema was read.
            .filter(|(field, _)| !matches!(field.name(), "uninterpreted_option" | "features"))
            .map(|(field, value)| (field.name().to_owned(), field.kind(), value));
        let mut extensions: Vec<_> = options.extensions().collect();
        extensions.sort_by_key(|(extension, _)| extension.number());
        let custom = extensions.into_iter().map(|(extension, value)| {
            (
                format!("(.{})", extension.full_name()),
                extension.kind(),
                value,
            )
        });
        let mut all = Vec::new();
        for (name, kind, value) in known.chain(custom) {
            match value {
                Value::List(list) => {
                    let values = list.iter().map(|value| text::scalar(value, &kind));
                    all.extend(values.map(|value| (name.clone(), value)));
                }
                value => all.push((name, text::scalar(value, &kind))),
            }
        }
        all
    }

    /// Returns true if a field is printed as a group. A group includes the contents of the field's
    /// type.
    fn is_group(&self, field: &FieldDescriptorProto) -> bool {
        field.r#type() == Type::Group && self.language != Language::Edition
    }

    /// Returns true if a type is printed as part of a group, because one of `fields` is a group of
    /// this type.
    fn is_group_of(
        &self,
        fields: &[FieldDescriptorProto],
        nested: &DescriptorProto,
        name: &str,
    ) -> bool {
        fields.iter().any(|field| {
            self.is_group(field)
                && field.type_name().trim_start_matches('.') == name
                && field.name() == nested.name().to_lowercase()
        })
    }

    fn type_name(&self, field: &FieldDescriptorProto, scope: &str) -> String {
        let name = match field.r#type() {
            Type::Double => "double",
            Type::Float => "float",
            Type::Int64 => "int64",
            Type::Uint64 => "uint64",
            Type::Int32 => "int32",
            Type::Fixed64 => "fixed64",
            Type::Fixed32 => "fixed32",
            Type::Bool => "bool",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Uint32 => "uint32",
            Type::Sfixed32 => "sfixed32",
            Type::Sfixed64 => "sfixed64",
            Type::Sint32 => "sint32",
            Type::Sint64 => "sint64",
            Type::Group | Type::Message | Type::Enum => {
                return self.shortest(field.type_name(), scope);
            }
        };
        name.to_owned()
    }

    /// Returns the shortest name that refers to the type `full_name` inside `scope`.
    fn shortest(&self, full_name: &str, scope: &str) -> String {
        let full_name = full_name.trim_start_matches('.');
        let mut around = Some(scope);
        while let Some(prefix) = around.filter(|prefix| !prefix.is_empty()) {
            let rest = full_name
                .strip_prefix(prefix)
                .and_then(|rest| rest.strip_prefix('.'));
            if let Some(rest) = rest
                && self.means(rest, scope, full_name)
            {
                return rest.to_owned();
            }
            around = prefix.rsplit_once('.').map(|(outer, _)| outer);
        }
        if self.means(full_name, scope, full_name) {
            return full_name.to_owned();
        }
        format!(".{full_name}")
    }

    /// Returns true if a name, used inside `scope`, refers to the type `full_name`. As in protobuf,
    /// the innermost scope that contains the first component of the name determines the type.
    fn means(&self, name: &str, scope: &str, full_name: &str) -> bool {
        let first = name.split('.').next().unwrap_or(name);
        let mut around = Some(scope);
        loop {
            let prefix = around.unwrap_or_default();
            let join = |name: &str| match prefix {
                "" => name.to_owned(),
                prefix => format!("{prefix}.{name}"),
            };
            if self.has(&join(first)) {
                return join(name) == full_name;
            }
            if prefix.is_empty() {
                return false;
            }
            around = prefix.rsplit_once('.').map(|(outer, _)| outer);
        }
    }

    /// Returns true if a full name belongs to a type, a package or a field. Any of these hides the
    /// same name in an outer scope.
    fn has(&self, name: &str) -> bool {
        let is_package = |package: &str| {
            package
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let is_field = || {
            let (message, field) = name.rsplit_once('.')?;
            self.pool
                .get_message_by_name(message)?
                .get_field_by_name(field)
        };
        self.pool.get_message_by_name(name).is_some()
            || self.pool.get_enum_by_name(name).is_some()
            || self
                .pool
                .files()
                .any(|file| is_package(file.package_name()))
            || is_field().is_some()
    }
}

fn bracketed(options: &[(String, String)]) -> String {
    if options.is_empty() {
        return String::new();
    }
    let options: Vec<String> = options
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    format!(" [{}]", options.join(", "))
}

/// Returns the index of the oneof in which the source declares a field; `None` if the field isn't
/// in a oneof. The synthetic oneof of an `optional` field doesn't count.
fn real_oneof(field: &FieldDescriptorProto) -> Option<i32> {
    field.oneof_index.filter(|_| !field.proto3_optional())
}

/// Returns the text of a range with an exclusive end. If the end is `behind_all`, the text ends
/// with `max`.
fn span(start: i32, end: i32, behind_all: i32) -> String {
    match end.saturating_sub(1) {
        _ if end >= behind_all => format!("{start} to max"),
        last if last == start => start.to_string(),
        last => format!("{start} to {last}"),
    }
}

/// Returns the JSON name that protobuf derives from a field's name.
fn json_name(name: &str) -> String {
    let mut json = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        match c {
            '_' => upper = true,
            c if upper => {
                json.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => json.push(c),
        }
    }
    json
}

#[cfg(test)]
mod tests;
