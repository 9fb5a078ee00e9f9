use std::collections::HashMap;

use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto};
use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

use super::*;

/// A file resolver for files that exist only in memory. The map contains the files' texts, by file
/// name.
struct Texts(HashMap<String, String>);

impl FileResolver for Texts {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match self.0.get(name) {
            Some(text) => File::from_source(name, text),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}

fn compile(texts: HashMap<String, String>) -> DescriptorPool {
    let names: Vec<String> = texts.keys().cloned().collect();
    let mut resolver = ChainFileResolver::new();
    resolver.add(Texts(texts));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true);
    for name in names {
        compiler.open_file(&name).unwrap();
    }
    compiler.descriptor_pool()
}

/// Returns a file with its nested types in a fixed order, since the position of map entries and
/// groups among the nested types may vary.
fn plain(file: &FileDescriptorProto) -> FileDescriptorProto {
    fn sort(messages: &mut [DescriptorProto]) {
        messages.sort_by(|a, b| a.name().cmp(b.name()));
        for message in messages {
            message.field.iter_mut().for_each(|f| {
                f.json_name = Some(f.json_name.clone().unwrap_or_else(|| json_name(f.name())));
            });
            sort(&mut message.nested_type);
        }
    }
    let mut file = file.clone();
    file.source_code_info = None;
    file.syntax =
        Some(file.syntax().to_owned()).filter(|syntax| syntax != "proto2" && !syntax.is_empty());
    sort(&mut file.message_type);
    file.extension.iter_mut().for_each(|f| f.json_name = None);
    file
}

#[track_caller]
fn assert_compiles_to_the_same(pool: &DescriptorPool) {
    let texts: HashMap<String, String> = pool
        .files()
        .filter(|file| !file.name().starts_with("google/protobuf/"))
        .map(|of| (of.name().to_owned(), file(&of)))
        .collect();
    let again = compile(texts.clone());
    for of in pool.files() {
        let name = of.name();
        let same = again.get_file_by_name(name).unwrap();
        assert_eq!(
            plain(of.file_descriptor_proto()),
            plain(same.file_descriptor_proto()),
            "{}",
            texts.get(name).map_or("", String::as_str)
        );
        assert_eq!(of.options().to_string(), same.options().to_string());
        // Printing the recompiled file gives the same text, even with custom options.
        assert_eq!(file(&of), file(&same), "{name}");
    }
}

#[test]
fn the_built_in_types_compile_again() {
    assert_compiles_to_the_same(
        crate::types::built_in("tensorflow.SavedModel")
            .unwrap()
            .parent_pool(),
    );
}

#[test]
fn everything_that_a_proto2_file_can_say_compiles_again() {
    let options = r#"
        syntax = "proto2";
        package my.options;
        import "google/protobuf/descriptor.proto";
        message Rule { optional string text = 1; repeated int32 number = 2; }
        extend google.protobuf.FieldOptions { optional Rule rule = 50001; repeated string tag = 50002; }
        extend google.protobuf.MessageOptions { optional bool sealed = 50003; }
        extend google.protobuf.EnumValueOptions { optional double weight = 50004; }
    "#;
    let main = r#"
        syntax = "proto2";
        package my.pkg;
        import public "options.proto";
        option java_package = "com.my \"pkg\"";
        option optimize_for = LITE_RUNTIME;

        enum Level { option allow_alias = true; LOW = 0; ALSO_LOW = 0; HIGH = -5 [deprecated = true, (my.options.weight) = 1.5]; reserved 7 to 9, 11; reserved "GONE"; }
        message Outer {
            option (my.options.sealed) = true;
            required int32 id = 1 [default = -7, (my.options.rule) = { text: "a\tb" number: [1, 2] }, (my.options.tag) = "x", (my.options.tag) = "y"];
            optional string name = 2 [default = "a\"b\\c\n\303\251", json_name = "called"];
            optional bytes raw = 3 [default = "\000\377'"];
            optional double limit = 4 [default = inf];
            optional Level level = 5 [default = HIGH];
            repeated sint64 packed = 6 [packed = true];
            map<string, Inner> by_name = 7;
            map<uint32, .my.pkg.Level> levels = 8;
            optional group Part = 9 { optional fixed32 x = 1; repeated group Deep = 2 { optional bool y = 1; } }
            oneof choice { option (my.options.none) = 1; string text = 10; group Pick = 11 { optional int32 z = 1; } }
            message Inner { optional Outer up = 1; optional .my.pkg.Outer.Inner self = 2; enum Level { A = 1; } optional Level shadowed = 3; optional .my.pkg.Level outer_level = 4;
                message my { } optional .my.options.Rule hidden = 5; }
            extensions 100 to 199, 500 to max;
            reserved 20, 30 to 40;
            reserved "old", "older";
            extend Outer { optional Inner nested_extension = 101; }
        }
        extend Outer { optional float top = 100; repeated group Added = 102 { optional int32 a = 1; } }
        service Works { option deprecated = true; rpc Do(Outer) returns (stream Outer.Inner); rpc Go(stream Outer) returns (Outer) { option idempotency_level = IDEMPOTENT; } }
    "#.replace("option (my.options.none) = 1; ", "");
    assert_compiles_to_the_same(&compile(
        [
            ("options.proto".to_owned(), options.to_owned()),
            ("main.proto".to_owned(), main),
        ]
        .into(),
    ));
}

#[test]
fn everything_that_a_proto3_file_can_say_compiles_again() {
    let main = r#"
        syntax = "proto3";
        package deep.er;
        import "google/protobuf/any.proto";
        message M {
            optional int32 maybe = 1;
            int32 plain = 2;
            repeated int32 unpacked = 3 [packed = false];
            oneof kind { M m = 4; google.protobuf.Any any = 5; }
            optional string also = 6;
            map<bool, bytes> map = 7;
            enum E { ZERO = 0; ONE = 1; }
            repeated E e = 8;
            string snake_case_1 = 9;
        }
    "#;
    assert_compiles_to_the_same(&compile([("a/b.proto".to_owned(), main.to_owned())].into()));
}
