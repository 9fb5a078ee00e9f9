//! A test that compares `docs/json.schema.json`, which describes the `--json` reports of every
//! command, with real reports. `UPDATE_GOLDEN=1` rewrites the schema.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::every_command::prepared;
use crate::support::Dir;

/// Names of the kinds of reports, each with the commands that print such a report.
const REPORTS: &[(&str, &[&str])] = &[
    (
        "split",
        &[
            "split model -o split",
            "split model --dry-run --max-chunk-size 20KiB",
            "split model -o rooted --max-chunk-size 20KiB --merkle-root",
        ],
    ),
    ("merge", &["merge small -o merged"]),
    (
        "verify",
        &[
            "verify small --deep --against model/saved_model.pb",
            "verify small --against other/saved_model.pb",
            "verify bad.cpb",
            "verify whole",
            "verify small --root 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        ],
    ),
    ("tree", &["tree small --min-size 0"]),
    ("tree --diff", &["tree small --diff other"]),
    ("info", &["info small", "info rooted"]),
    ("info of a model", &["info model.safetensors"]),
    ("ls", &["ls small"]),
    ("ls of an archive", &["ls model.safetensors"]),
    ("layout", &["layout small --blocks"]),
    ("schema", &["schema small"]),
    (
        "tensors",
        &["tensors small", "tensors params --program program.pdmodel"],
    ),
    ("export", &["export small -o all.npz"]),
    (
        "pieces",
        &["pieces graph.pb --message tensorflow.GraphDef --field node --count 2 -o pieces"],
    ),
    ("convert", &["convert model converted --to cpb"]),
    ("convert --to help", &["convert model --to help"]),
    (
        "externalize",
        &[
            "externalize model -o ext --min-size 1KiB",
            "externalize model --dry-run",
        ],
    ),
    ("internalize", &["internalize runs -o original"]),
    ("fingerprint", &["fingerprint model"]),
    ("sign", &["sign model --key key.pem -o model.sig"]),
    (
        "verify --signature",
        &["verify model --signature model.sig --key key.pub"],
    ),
    ("diff", &["diff model other", "diff model model"]),
    (
        "recompress",
        &["recompress small --compression none -o recompressed"],
    ),
    (
        "replace",
        &["replace small meta_graphs[0].graph_def.node[1].name --with name -o replaced"],
    ),
    (
        "remove",
        &["remove small meta_graphs[0].graph_def.node[1] -o removed"],
    ),
    (
        "insert",
        &["insert small meta_graphs[0].meta_info_def.tags --value gpu -o inserted"],
    ),
    ("strip", &["strip small --tensors -o stripped"]),
    (
        "edit",
        &["edit small --remove meta_graphs[0].graph_def.node[1] -o edited"],
    ),
    (
        "append",
        &["append parameters name --dtype uint8 --shape 7"],
    ),
    ("samediff tags", &["samediff tags model.zip"]),
    (
        "--plan-only",
        &[
            "merge small/saved_model.cpb -o by-parts.pb --plan-only plan --parts 1",
            "split model/saved_model.pb -o by-hosts --profile extended --merkle-root --plan-only splitting",
        ],
    ),
    (
        "--part",
        &[
            "merge --plan plan --part 0",
            "split --plan splitting --part 0",
        ],
    ),
    (
        "--commit",
        &[
            "merge --plan plan --commit",
            "split --plan splitting --commit",
        ],
    ),
];

/// The JSON types and fields of the values found at one position in reports.
#[derive(Default)]
struct Shape {
    types: BTreeSet<&'static str>,
    objects: usize,
    /// Fields of objects by name, each with the number of objects that have the field.
    fields: BTreeMap<String, (usize, Shape)>,
    items: Option<Box<Shape>>,
}

impl Shape {
    /// Adds a value to the shape. The elements of any list named `fields` are added to `nested`
    /// instead, since these lists are recursive in a tree.
    fn add(&mut self, value: &Value, nested: &mut Vec<Value>) {
        self.types.insert(match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        });
        match value {
            Value::Array(values) => {
                let items = self.items.get_or_insert_default();
                for value in values {
                    items.add(value, nested);
                }
            }
            Value::Object(fields) => {
                self.objects += 1;
                for (name, value) in fields {
                    let (count, shape) = self.fields.entry(name.clone()).or_default();
                    *count += 1;
                    match (name.as_str(), value) {
                        ("fields", Value::Array(values)) => nested.extend(values.iter().cloned()),
                        _ => shape.add(value, nested),
                    }
                }
            }
            _ => {}
        }
    }

    fn schema(&self) -> Value {
        let mut types = self.types.clone();
        if types.contains("number") {
            types.remove("integer");
        }
        let mut schema = match types.iter().collect::<Vec<_>>()[..] {
            // If the value is null or missing in every report, its type is unknown.
            [] | [&"null"] => json!({}),
            [only] => json!({ "type": only }),
            _ => json!({ "type": types }),
        };
        if self.objects > 0 {
            let properties = self.fields.iter().map(|(name, (_, shape))| {
                let is_nested = name == "fields" && shape.types.is_empty();
                let list = json!({ "type": "array", "items": { "$ref": "#/$defs/field" } });
                (name.clone(), if is_nested { list } else { shape.schema() })
            });
            schema["properties"] = properties.collect::<serde_json::Map<_, _>>().into();
            let required = self
                .fields
                .iter()
                .filter(|(_, (count, _))| *count == self.objects);
            schema["required"] = required.map(|(name, _)| name.as_str()).collect();
        }
        if let Some(items) = &self.items {
            schema["items"] = items.schema();
        }
        schema
    }
}

fn report(dir: &Dir, line: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_protosplit"))
        .args(line.split(' '))
        .arg("--json")
        .current_dir(dir.path(""))
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{line}: {error}: {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

#[test]
fn the_schema_describes_the_report_of_every_command() {
    let dir = prepared();
    report(&dir, "export small -o model.safetensors");
    fs::rename(crate::samediff::model(&dir), dir.path("model.zip")).unwrap();
    fs::create_dir_all(dir.path("whole/variables")).unwrap();
    for file in [
        "saved_model.pb",
        "variables/variables.index",
        "variables/variables.data-00000-of-00001",
    ] {
        let source = crate::support::fixture("keras_mlp").join(file);
        fs::copy(source, dir.path("whole").join(file)).unwrap();
    }
    for file in ["params", "program.pdmodel"] {
        let source = crate::support::fixture("../paddle/combined_all_dtypes").join(file);
        fs::copy(source, dir.path(file)).unwrap();
    }
    let mut nested = Vec::new();
    let reports: serde_json::Map<_, _> = REPORTS
        .iter()
        .map(|(name, lines)| {
            let mut shape = Shape::default();
            for line in *lines {
                shape.add(&report(&dir, line), &mut nested);
            }
            ((*name).to_owned(), shape.schema())
        })
        .collect();
    let mut field = Shape::default();
    while let Some(value) = nested.pop() {
        field.add(&value, &mut nested);
    }
    let seen = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Reports of protosplit --json, by command",
        "type": "object",
        "properties": reports,
        "$defs": { "field": field.schema() },
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.schema.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, serde_json::to_string_pretty(&seen).unwrap() + "\n").unwrap();
    }
    let kept: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        seen, kept,
        "docs/json.schema.json; UPDATE_GOLDEN=1 accepts it"
    );
}

#[test]
fn the_schema_has_every_command_that_reports() {
    let help = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_protosplit"))
            .args(args)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let commands = help(&["-h"]);
    let commands = commands.lines().take_while(|line| *line != "Options:");
    let commands: Vec<&str> = commands
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !["help", "samediff"].contains(name))
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let has_json = help(&[command, "-h"]).contains("--json");
        let is_described = REPORTS.iter().any(|(name, _)| *name == command);
        assert_eq!(is_described, has_json, "{command}");
    }
}
