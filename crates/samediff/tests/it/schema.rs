//! Tests that `src/fb/schema.rs` contains the tables of the schemas in `schemas/`.

use std::fmt::Write;

/// A table of a schema: its name, and the name and type of each field.
struct Table {
    name: String,
    fields: Vec<(String, String)>,
}

/// A schema: its namespace, its tables and the names of its enumerations.
struct Schema {
    namespace: String,
    tables: Vec<Table>,
    enums: Vec<String>,
}

/// Parses the subset of the schema language that the schemas use: one namespace, tables, and byte
/// enumerations.
fn parse(text: &str) -> Schema {
    let code: String = text
        .lines()
        .map(|line| line.split("//").next().unwrap())
        .collect::<Vec<_>>()
        .join(" ");
    let mut schema = Schema {
        namespace: String::new(),
        tables: Vec::new(),
        enums: Vec::new(),
    };
    let mut rest = code.trim();
    while !rest.is_empty() {
        let end = rest.find([';', '{']).expect("a statement ends");
        let (head, tail) = rest.split_at(end);
        let words: Vec<&str> = head
            .split([' ', ':'])
            .filter(|word| !word.is_empty())
            .collect();
        let body = tail
            .starts_with('{')
            .then(|| tail[1..].split_once('}').expect("a body ends"));
        match (&words[..], body) {
            (["table", name], Some((body, _))) => schema.tables.push(Table {
                name: (*name).to_owned(),
                fields: body.split(';').filter_map(field).collect(),
            }),
            (["enum", name, "byte"], Some(_)) => schema.enums.push((*name).to_owned()),
            (["namespace", name], None) => schema.namespace = (*name).to_owned(),
            (["include" | "root_type", _], None) => {}
            other => panic!("{other:?} is not supported in a schema"),
        }
        rest = body.map_or(&tail[1..], |(_, rest)| rest).trim();
    }
    schema
}

fn field(text: &str) -> Option<(String, String)> {
    let (name, kind) = text.trim().split_once(':')?;
    let kind = kind.trim().trim_end_matches("(required)").trim();
    Some((name.to_owned(), kind.to_owned()))
}

/// Splits the name of a type into its namespace, which is `own` by default, and the name without
/// it.
fn resolve<'a>(own: &'a str, kind: &'a str) -> (&'a str, &'a str) {
    kind.split_once('.').unwrap_or((own, kind))
}

fn upper(camel: &str) -> String {
    let mut name = String::new();
    for (index, c) in camel.chars().enumerate() {
        if c.is_ascii_uppercase() && index > 0 {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

fn kind(schemas: &[Schema], own: &str, kind: &str) -> String {
    let (is_vector, element) = match kind.strip_prefix('[') {
        Some(inner) => (true, inner.trim_end_matches(']')),
        None => (false, kind),
    };
    let (namespace, name) = resolve(own, element);
    let schema = schemas
        .iter()
        .find(|schema| schema.namespace == namespace)
        .unwrap();
    let scalar = match name {
        "ubyte" if is_vector => return "Kind::Payload".to_owned(),
        "bool" | "byte" => "I8",
        "int" => "I32",
        "long" => "I64",
        "double" => "F64",
        "string" => "String",
        _ if schema.enums.iter().any(|known| known == name) => "I8",
        _ => {
            assert!(
                schema.tables.iter().any(|table| table.name == name),
                "{name}"
            );
            let plural = if is_vector { "s" } else { "" };
            return format!("Kind::Table{plural}(&super::{namespace}::{})", upper(name));
        }
    };
    format!("Kind::{scalar}{}", if is_vector { "s" } else { "" })
}

fn generate(schemas: &[Schema]) -> String {
    let mut code = String::from(
        "//! The tables of `schemas/`. `tests/it/schema.rs` generates this file; don't edit it.\n\
         #![allow(dead_code, reason = \"all tables of the schemas are here\")]\n",
    );
    for schema in schemas {
        let own = &schema.namespace;
        write!(
            code,
            "\npub(crate) mod {own} {{\n    use crate::fb::{{FieldType, Kind, TableType}};\n"
        )
        .unwrap();
        for table in &schema.tables {
            let name = &table.name;
            let upper_name = upper(name);
            write!(
                code,
                "\n    pub(crate) static {upper_name}: TableType = TableType {{\n        name: \"{name}\",\n        fields: &[\n"
            )
            .unwrap();
            for (field, field_kind) in &table.fields {
                let kind = kind(schemas, own, field_kind);
                writeln!(
                    code,
                    "            FieldType {{ name: \"{field}\", kind: {kind} }},"
                )
                .unwrap();
            }
            write!(
                code,
                "        ],\n    }};\n\n    /// The slots of [`{upper_name}`].\n    pub(crate) mod {} {{\n",
                upper_name.to_ascii_lowercase()
            )
            .unwrap();
            for (slot, (field, _)) in table.fields.iter().enumerate() {
                let field = field.to_ascii_uppercase();
                writeln!(code, "        pub(crate) const {field}: usize = {slot};").unwrap();
            }
            code.push_str("    }\n");
        }
        code.push_str("}\n");
    }
    code
}

#[test]
fn the_tables_are_generated_from_the_schemas() {
    let schemas = ["schemas/flat_graph.fbs", "schemas/samediff.fbs"];
    let schemas = schemas.map(|path| parse(&std::fs::read_to_string(path).unwrap()));
    let generated = generate(&schemas);
    if std::env::var_os("REGENERATE").is_some() {
        std::fs::write("src/fb/schema.rs", &generated).unwrap();
    }
    let code = std::fs::read_to_string("src/fb/schema.rs").unwrap();
    assert!(
        code == generated,
        "run this test with REGENERATE=1 to generate src/fb/schema.rs anew"
    );
}
