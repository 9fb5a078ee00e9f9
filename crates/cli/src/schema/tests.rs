//! Comparing the descriptors of sources with editions to the output of protobuf's own compiler.

use std::collections::BTreeMap;

use prost_reflect::{DynamicMessage, EnumDescriptor, FileDescriptor, ServiceDescriptor, Value};
use proto_splitter::schema::{decode_descriptor_set, has_presence};
use proto_splitter_testkit::generate::Random;
use protox::file::File;

use super::*;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/schemas")
        .join(name)
}

/// Returns the sources from which the compiled descriptor set was made.
fn sources() -> Vec<PathBuf> {
    let entries = fs::read_dir(data("editions")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn compiled(proto: Vec<PathBuf>, folder: PathBuf) -> Result<DescriptorPool, Failure> {
    load(&SchemaArgs {
        proto,
        proto_path: vec![folder],
        ..SchemaArgs::default()
    })
}

/// Returns options as text, without features. These can't be compared, since compiling a source
/// with an edition removes its language-specific features.
fn shown(mut options: DynamicMessage) -> String {
    options.clear_field_by_name("features");
    options.to_string()
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(values) => values.full_name().to_owned(),
        scalar => format!("{scalar:?}"),
    }
}

/// Returns a field's default as text. For a message, returns an empty string, since the default of
/// a recursive message can't be formatted.
fn default(kind: &Kind, value: &Value) -> String {
    match kind {
        Kind::Message(_) => String::new(),
        _ => format!("{value:?}"),
    }
}

fn say_enum(said: &mut Vec<String>, of: &EnumDescriptor) {
    let names: Vec<_> = of.reserved_names().collect();
    let ranges: Vec<_> = of.reserved_ranges().collect();
    said.push(format!(
        "enum {} {} {names:?} {ranges:?} {}",
        of.full_name(),
        shown(of.options()),
        of.default_value().name()
    ));
    said.extend(of.values().map(|value| {
        let options = shown(value.options());
        format!("{} = {} {options}", value.full_name(), value.number())
    }));
}

fn say_message(said: &mut Vec<String>, of: &MessageDescriptor) {
    let names: Vec<_> = of.reserved_names().collect();
    let reserved: Vec<_> = of.reserved_ranges().collect();
    let extensible: Vec<_> = of.extension_ranges().collect();
    said.push(format!(
        "message {} {} {names:?} {reserved:?} {extensible:?} {}",
        of.full_name(),
        shown(of.options()),
        of.is_map_entry(),
    ));
    for field in of.fields() {
        said.push(format!(
            "{} = {} {} {} {:?} packed {} presence {} group {} default {} oneof {:?} {}",
            field.full_name(),
            field.number(),
            field.json_name(),
            kind(&field.kind()),
            field.cardinality(),
            field.is_packed(),
            has_presence(&field),
            field.is_group(),
            default(&field.kind(), &field.default_value()),
            field
                .containing_oneof()
                .map(|oneof| oneof.full_name().to_owned()),
            shown(field.options()),
        ));
    }
    of.child_enums().for_each(|child| say_enum(said, &child));
    of.child_messages()
        .for_each(|child| say_message(said, &child));
}

fn say_service(said: &mut Vec<String>, of: &ServiceDescriptor) {
    said.push(format!(
        "service {} {}",
        of.full_name(),
        shown(of.options())
    ));
    said.extend(of.methods().map(|method| {
        format!(
            "{} {} {} {} {} {}",
            method.full_name(),
            method.input().full_name(),
            method.is_client_streaming(),
            method.output().full_name(),
            method.is_server_streaming(),
            shown(method.options())
        )
    }));
}

/// Returns a line of text for each definition in a file.
fn definitions(file: &FileDescriptor) -> Vec<String> {
    let mut said = vec![format!(
        "file {} {:?} {}",
        file.package_name(),
        file.syntax(),
        shown(file.options())
    )];
    file.messages().for_each(|of| say_message(&mut said, &of));
    file.enums().for_each(|of| say_enum(&mut said, &of));
    file.services().for_each(|of| say_service(&mut said, &of));
    let pool = file.parent_pool();
    let extensions = pool.all_extensions();
    said.extend(extensions.filter(|of| of.parent_file() == *file).map(|of| {
        format!(
            "extend {} {} = {} {} {:?} packed {} presence {} group {} default {} {}",
            of.containing_message().full_name(),
            of.full_name(),
            of.number(),
            kind(&of.kind()),
            of.cardinality(),
            of.is_packed(),
            of.supports_presence(),
            of.is_group(),
            default(&of.kind(), &of.default_value()),
            shown(of.options())
        )
    }));
    said
}

#[test]
fn sources_in_editions_compile_to_what_the_compiler_of_protobuf_makes_of_them() {
    let theirs = decode_descriptor_set(&fs::read(data("editions.binpb")).unwrap()).unwrap();
    let all = compiled(sources(), data("editions")).unwrap();
    let mut compared = BTreeMap::<String, usize>::new();
    for path in sources() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let expected = definitions(&theirs.get_file_by_name(name).unwrap());
        // The source is compiled alone with its imports, for comparison with compiling all sources
        // together.
        let alone = compiled(vec![path.clone()], data("editions")).unwrap();
        for pool in [&all, &alone] {
            let found = definitions(&pool.get_file_by_name(name).unwrap());
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found, expected, "{name}");
            }
            assert_eq!(found.len(), expected.len(), "{name}");
        }
        for line in &expected {
            let word = line.split(' ').next().unwrap_or_default();
            let what = if word.contains('.') { "members" } else { word };
            *compared.entry(what.to_owned()).or_default() += 1;
        }
    }
    assert!(compared["members"] > 150, "{compared:?}");
}

#[test]
fn the_sources_of_compiled_schemas_compile_to_the_same() {
    for (name, package) in [("edition_2023", "edition"), ("edition_2024", "edition2024")] {
        let set = fs::read(data(&format!("{name}.binpb"))).unwrap();
        let theirs = decode_descriptor_set(&set).unwrap();
        let source = data(&format!("{name}.proto"));
        let ours = compiled(vec![source], data("")).unwrap();
        let root = format!("{package}.Root");
        let file = |pool: &DescriptorPool| {
            let root = pool.get_message_by_name(&root).unwrap();
            definitions(&root.parent_file())
        };
        assert_eq!(file(&ours), file(&theirs));
    }
}

/// Compiles a source from a string. Imports are looked up in the folder with the test sources.
fn compile_text(name: &str, source: &str) -> Result<DescriptorPool, Failure> {
    struct Text(String, String, EditionSources);
    impl FileResolver for Text {
        fn open_file(&self, name: &str) -> Result<File, protox::Error> {
            let Text(own, source, editions) = self;
            if own != name {
                return Err(protox::Error::file_not_found(name));
            }
            let opened = editions.open(name, source);
            opened.unwrap_or_else(|| File::from_source(name, source))
        }
    }
    let editions = EditionSources::default();
    let mut resolver = ChainFileResolver::new();
    resolver.add(Text(name.to_owned(), source.to_owned(), editions.clone()));
    resolver.add(editions.in_folder(&data("editions")));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true);
    let opened = compiler.open_file(name);
    opened.map_err(|error| failure(Path::new(name), &error, &editions))?;
    let set = compiler.encode_file_descriptor_set();
    let mut pool = DescriptorPool::new();
    let marked = editions.mark(set).map_err(Failure::usage)?;
    add(&mut pool, Path::new(name), &marked)?;
    Ok(pool)
}

#[test]
fn what_an_edition_does_not_have_is_one_line_with_its_place() {
    let table = [
        (
            "edition = \"2025\";",
            "a.proto:1:11: edition \"2025\" is not known: only 2023 and 2024 are",
        ),
        (
            "// é\n\nedition = 'UNSTABLE';",
            "a.proto:3:11: edition \"UNSTABLE\" is not known: only 2023 and 2024 are",
        ),
        (
            "edition \"2023\";",
            "a.proto:1:1: expected edition = \"2023\" or edition = \"2024\"",
        ),
        (
            "edition = \"2023\";\nmessage A { string a = 1;\n  optional string b = 2; }",
            "a.proto:3:3: an edition has no label `optional`: a field without a label is optional",
        ),
        (
            "edition = \"2023\"; message A { required string b = 2; }",
            "a.proto:1:31: an edition has no label `required`: use [features.field_presence = LEGACY_REQUIRED]",
        ),
        (
            "edition = \"2023\";\nmessage A {\n  repeated group B = 2 {} }",
            "a.proto:3:12: an edition has no groups: use a message field with [features.message_encoding = DELIMITED]",
        ),
        (
            "edition = \"2023\";\nmessage A { repeated int32 b = 2 [deprecated = true, packed = true]; }",
            "a.proto:2:54: an edition has no option `packed`: use features.repeated_field_encoding",
        ),
        // The columns in errors from the compiler are those of the original source.
        (
            "edition = \"2023\";\nmessage A { string a = 1; string b == 2; }",
            "a.proto:2:37: expected an integer, but found '='",
        ),
        (
            "edition = \"2023\";\nmessage A { reserved b, c; int32 a = 1; int32 a = 2; }",
            "a.proto:2:47: name 'A.a' is defined twice",
        ),
        (
            "edition = \"2023\"; message A { B a = 1; }",
            "a.proto:1:31: name 'B' is not defined",
        ),
        (
            "edition = \"2023\";\nmessage A {\n  // A comment.\n  B a = 1;\n}",
            "a.proto:4:3: name 'B' is not defined",
        ),
        (
            "edition = \"2023\";\noption features.field_presense = IMPLICIT;",
            "a.proto:2:1: option field 'features.field_presense' is not defined",
        ),
        (
            "edition = \"2023\"; syntax = \"proto3\";",
            "a.proto:1:19: expected 'enum', 'extend', 'import', 'message', 'option', 'service', 'package' or ';', but found 'syntax'",
        ),
        (
            "edition = \"2023\";\nimport option \"units.proto\";",
            "a.proto:2:8: expected a string literal, 'public' or 'weak', but found 'option'",
        ),
        (
            "edition = \"2023\"; local message A {}",
            "a.proto:1:19: expected 'enum', 'extend', 'import', 'message', 'option', 'service', 'package' or ';', but found 'local'",
        ),
        // Removing a feature removes nothing else.
        (
            "edition = \"2024\";\noption features.enforce_naming_style = STYLE_LEGACY\nmessage A {}\n;",
            "a.proto:3:1: expected ';', but found 'message'",
        ),
        (
            "edition = \"2024\";\nmessage A { string a = 1 [features.(pb.cpp).string_type = VIEW b]; }",
            "a.proto:2:64: expected ',' or ']', but found 'b'",
        ),
        (
            "edition = \"2024\";\noption features = { [pb.cpp] : }; message A {}",
            "a.proto:2:1: invalid value of type 'google.protobuf.FeatureSet' for option 'features'",
        ),
        (
            "edition = \"2024\";\nimport \"google/protobuf/cpp_features.proto\" message A {}",
            "a.proto:2:45: expected ';', but found 'message'",
        ),
        (
            "edition = \"2023\";\nmessage A { reserved b c; }",
            "a.proto:2:24: expected ',' or ';', but found 'c'",
        ),
        (
            "edition = \"2023\";\nmessage A { reserved b, 3; }",
            "a.proto:2:25: expected a string literal, but found '3'",
        ),
        (
            "edition = \"2023\";\nmessage A {",
            "a.proto: expected a message field, oneof, reserved range, enum, message, option or '}', but reached end of file",
        ),
        (
            "edition = \"2024\";\nimport option \"missing.proto\";",
            "a.proto:2:1: import 'missing.proto' not found (use -I DIR to search another folder for imports)",
        ),
        (
            "edition = \"2024\";\nimport option \"units.proto\";\nmessage A { int32 a = 1 [(editions.units.weight) = 1]; }",
            "a.proto:3:26: 'editions.units.weight' resolves to 'editions.units.weight', which is not defined",
        ),
    ];
    for (source, expected) in table {
        let error = compile_text("a.proto", source).unwrap_err();
        assert_eq!(error.message(), expected, "{source}");
    }
}

#[test]
fn names_that_are_words_of_the_language_stay_names() {
    let source = "edition = '20' \"24\"; /* } */
        message export { .local local = 1; .export message = 2; int32 enum = 3; .local group = 4; }
        message local { int32 reserved = 1; int32 edition = 2; map<int32, .export> map = 3; }
        export enum syntax { features = 0; edition = 1; }";
    let pool = compile_text("a.proto", source).unwrap();
    let of = |name: &str| pool.get_message_by_name(name).unwrap();
    assert_eq!(of("export").fields().len(), 4);
    assert!(of("local").get_field_by_name("map").unwrap().is_map());
    assert!(pool.get_enum_by_name("syntax").is_some());
}

#[test]
fn a_file_that_hides_another_of_the_same_name_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for name in ["first", "second"] {
        fs::create_dir(file(name)).unwrap();
        fs::write(file(name).join("a.proto"), "edition = \"2023\";").unwrap();
    }
    let given = |before: &str| {
        load(&SchemaArgs {
            proto: vec![file("second/a.proto")],
            proto_path: vec![file(before), file("second")],
            ..SchemaArgs::default()
        })
    };
    given("first/../second").unwrap();
    let error = given("first").unwrap_err();
    let shown = |name: &str| file(name).display().to_string();
    let expected = format!(
        "path '{}' is shadowed by '{}' in the include paths",
        shown("second/a.proto"),
        shown("first/a.proto")
    );
    assert_eq!(error.message(), expected);
}

#[test]
fn a_damaged_source_is_one_line_or_another_schema_but_never_a_panic() {
    let mut random = Random::new(2023);
    let mut below = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
    let (mut read, mut refused) = (0, 0);
    for path in sources() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let source = fs::read_to_string(&path).unwrap();
        let mut check = |damaged: &[u8]| {
            let damaged = String::from_utf8_lossy(damaged);
            match compile_text(name, &damaged) {
                Ok(_) => read += 1,
                Err(error) => {
                    refused += 1;
                    let line = error.message();
                    assert!(
                        !line.is_empty() && !line.contains('\n'),
                        "{line}\n{damaged}"
                    );
                }
            }
        };
        for _ in 0..40 {
            check(&source.as_bytes()[..below(source.len())]);
            let mut damaged = source.clone().into_bytes();
            for _ in 0..=below(3) {
                let at = below(damaged.len());
                match below(3) {
                    0 => damaged[at] ^= 1 << below(8),
                    1 => damaged[at] = b"{}[]()<>;,=\"'.:/*#\n o"[below(20)],
                    _ => drop(damaged.remove(at)),
                }
            }
            check(&damaged);
        }
    }
    assert!(read > 20 && refused > 200, "{read} {refused}");
}
