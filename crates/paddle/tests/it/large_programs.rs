//! Tests that every large part of a program is split, that nothing is split unnecessarily, and that
//! programs merge back byte for byte.

use std::io;
use std::sync::Arc;

use prost::Message;
use proto_splitter_core::merge::Merger;
use proto_splitter_core::spans::{SourceId, Spans, SpansBuilder};
use proto_splitter_core::split::{Profile, Source, SplitExt, SplitOptions};
use proto_splitter_core::wire::FieldNumber;
use proto_splitter_paddle::proto::descriptor_pool;
use proto_splitter_paddle::proto::framework::op_desc::{Attr, Var};
use proto_splitter_paddle::proto::framework::op_version_map::OpVersionPair;
use proto_splitter_paddle::proto::framework::var_desc::Attr as VarAttr;
use proto_splitter_paddle::proto::framework::var_type::{LoDTensorDesc, TensorDesc, Type};
use proto_splitter_paddle::proto::framework::{
    AttrType, BlockDesc, OpDesc, OpVersion, OpVersionMap, ProgramDesc, Scalar, VarDesc, VarType,
    scalar,
};
use proto_splitter_paddle::{PROGRAM_DESC, ProgramDescSplitter};
use proto_splitter_testkit::splits::{self, Outcome};
use record_file::ReadAt;

fn source(bytes: &[u8]) -> Source {
    let descriptor = descriptor_pool().get_message_by_name(PROGRAM_DESC).unwrap();
    Source::from_bytes(bytes.to_vec(), descriptor)
}

fn of_blocks(blocks: Vec<BlockDesc>) -> ProgramDesc {
    ProgramDesc {
        blocks,
        ..ProgramDesc::default()
    }
}

fn of_op(op: OpDesc) -> ProgramDesc {
    let ops = vec![other_op(0), op, other_op(1)];
    of_blocks(vec![BlockDesc {
        parent_idx: -1,
        ops,
        ..BlockDesc::default()
    }])
}

/// Returns a program whose second op has this attribute, between two small ones.
fn of_attr(name: &str, kind: AttrType, value: Attr) -> ProgramDesc {
    let attr = |name: &str, kind: AttrType, value| Attr {
        name: name.into(),
        r#type: kind.into(),
        ..value
    };
    let small = |name| {
        attr(
            name,
            AttrType::Int,
            Attr {
                i: Some(7),
                ..Attr::default()
            },
        )
    };
    of_op(OpDesc {
        r#type: "op".into(),
        attrs: vec![small("before"), attr(name, kind, value), small("behind")],
        ..OpDesc::default()
    })
}

fn other_op(at: usize) -> OpDesc {
    let names = |parameter: &str, name: &str| Var {
        parameter: parameter.into(),
        arguments: vec![format!("{name}_{at}")],
    };
    OpDesc {
        r#type: "relu".into(),
        inputs: vec![names("X", "in")],
        outputs: vec![names("Out", "out")],
        ..OpDesc::default()
    }
}

fn var(at: usize) -> VarDesc {
    let tensor = TensorDesc {
        data_type: Type::Fp32.into(),
        dims: vec![-1, 3],
    };
    VarDesc {
        name: format!("fc_{at}.tmp_0"),
        r#type: VarType {
            r#type: Type::LodTensor.into(),
            lod_tensor: Some(LoDTensorDesc {
                tensor,
                lod_level: Some(0),
            }),
            ..VarType::default()
        },
        ..VarDesc::default()
    }
}

fn block(at: i32) -> BlockDesc {
    BlockDesc {
        idx: at,
        parent_idx: at - 1,
        ops: vec![other_op(at.cast_unsigned() as usize)],
        ..BlockDesc::default()
    }
}

fn lines(bytes: usize) -> Vec<String> {
    let line = |at| format!("  File \"layers/layer_{at}.py\", line {at}, in forward");
    (0..bytes / 40).map(line).collect()
}

/// A kind of large value: its name, a function that returns a program of about the given number of
/// bytes with such a value, and the field path of the value.
type Large = (&'static str, fn(usize) -> ProgramDesc, &'static str);

/// All kinds of values that are or could be large in real programs.
const LARGE: [Large; 20] = [
    (
        "floats",
        |n| {
            of_attr(
                "fp32_values",
                AttrType::Floats,
                Attr {
                    floats: (0..n / 5).map(|at| at as f32).collect(),
                    ..Attr::default()
                },
            )
        },
        ATTR,
    ),
    (
        "ints",
        |n| {
            of_attr(
                "int32_values",
                AttrType::Ints,
                Attr {
                    ints: (0..n as i32 / 3)
                        .map(|at| if at % 9 == 0 { -at } else { at })
                        .collect(),
                    ..Attr::default()
                },
            )
        },
        ATTR,
    ),
    (
        "bools",
        |n| {
            of_attr(
                "masks",
                AttrType::Booleans,
                Attr {
                    bools: (0..n / 2).map(|at| at % 3 == 0).collect(),
                    ..Attr::default()
                },
            )
        },
        ATTR,
    ),
    (
        "longs",
        |n| {
            of_attr(
                "int64_values",
                AttrType::Longs,
                Attr {
                    longs: (0..n as i64 / 4).map(|at| at * at).collect(),
                    ..Attr::default()
                },
            )
        },
        ATTR,
    ),
    (
        "float64s",
        |n| {
            of_attr(
                "fp64_values",
                AttrType::Float64s,
                Attr {
                    float64s: (0..n / 9).map(|at| at as f64).collect(),
                    ..Attr::default()
                },
            )
        },
        ATTR,
    ),
    (
        "scalars",
        |n| {
            of_attr(
                "values",
                AttrType::Scalars,
                Attr {
                    scalars: (0..n as i64 / 6)
                        .map(|at| Scalar {
                            r#type: scalar::Type::Long.into(),
                            i: Some(at),
                            ..Scalar::default()
                        })
                        .collect(),
                    ..Attr::default()
                },
            )
        },
        ATTR,
    ),
    (
        "blocks_idx",
        |n| {
            of_attr(
                "blocks",
                AttrType::Blocks,
                Attr {
                    blocks_idx: (0..n as i32 / 3).collect(),
                    ..Attr::default()
                },
            )
        },
        ATTR,
    ),
    (
        "an engine",
        |n| {
            of_attr(
                "engine_serialized_data",
                AttrType::String,
                Attr {
                    s: Some("engine ".repeat(n / 7)),
                    ..Attr::default()
                },
            )
        },
        ATTR,
    ),
    (
        "a parameter file as text",
        |n| {
            of_attr(
                "file_path",
                AttrType::String,
                Attr {
                    s: Some("\0".repeat(n)),
                    ..Attr::default()
                },
            )
        },
        ATTR,
    ),
    (
        "a call stack",
        |n| {
            of_attr(
                "op_callstack",
                AttrType::Strings,
                Attr {
                    strings: lines(n),
                    ..Attr::default()
                },
            )
        },
        ATTR,
    ),
    (
        "names of variables",
        |n| {
            of_attr(
                "vars",
                AttrType::Vars,
                Attr {
                    vars_name: lines(n),
                    ..Attr::default()
                },
            )
        },
        ATTR,
    ),
    (
        "attributes",
        |n| {
            of_op(OpDesc {
                r#type: "op".into(),
                attrs: (0..n / 20)
                    .map(|at| Attr {
                        name: format!("attribute_{at}"),
                        r#type: AttrType::Long.into(),
                        l: Some(at as i64),
                        ..Attr::default()
                    })
                    .collect(),
                ..OpDesc::default()
            })
        },
        OP,
    ),
    (
        "arguments",
        |n| {
            of_op(OpDesc {
                r#type: "sum".into(),
                inputs: vec![Var {
                    parameter: "X".into(),
                    arguments: lines(n),
                }],
                ..OpDesc::default()
            })
        },
        OP,
    ),
    (
        "call stacks of many ops",
        |n| {
            of_blocks(vec![BlockDesc {
                ops: (0..n / 300 + 1)
                    .map(|at| OpDesc {
                        attrs: vec![Attr {
                            name: "op_callstack".into(),
                            r#type: AttrType::Strings.into(),
                            strings: lines(250),
                            ..Attr::default()
                        }],
                        ..other_op(at)
                    })
                    .collect(),
                ..BlockDesc::default()
            }])
        },
        BLOCK,
    ),
    (
        "ops",
        |n| {
            of_blocks(vec![BlockDesc {
                ops: (0..n / 30).map(other_op).collect(),
                ..BlockDesc::default()
            }])
        },
        BLOCK,
    ),
    (
        "variables",
        |n| {
            of_blocks(vec![BlockDesc {
                vars: (0..n / 35).map(var).collect(),
                ..BlockDesc::default()
            }])
        },
        BLOCK,
    ),
    (
        "both",
        |n| {
            of_blocks(vec![BlockDesc {
                vars: (0..n / 50).map(var).collect(),
                ops: (0..n / 50).map(other_op).collect(),
                ..BlockDesc::default()
            }])
        },
        BLOCK,
    ),
    (
        "blocks",
        |n| of_blocks((0..n as i32 / 40).map(block).collect()),
        "blocks",
    ),
    (
        "attributes of a variable",
        |n| {
            of_blocks(vec![BlockDesc {
                vars: vec![VarDesc {
                    attrs: vec![VarAttr {
                        name: "rows".into(),
                        r#type: AttrType::Ints.into(),
                        ints: (0..n as i32 / 3).collect(),
                        ..VarAttr::default()
                    }],
                    ..var(0)
                }],
                ..BlockDesc::default()
            }])
        },
        BLOCK,
    ),
    (
        "versions of ops",
        |n| ProgramDesc {
            op_version_map: Some(OpVersionMap {
                pair: (0..n / 20)
                    .map(|at| OpVersionPair {
                        op_name: format!("op_number_{at}"),
                        op_version: OpVersion { version: 1 },
                    })
                    .collect(),
            }),
            ..of_blocks(vec![block(0)])
        },
        "op_version_map",
    ),
];

const BLOCK: &str = "blocks[0]";
const OP: &str = "blocks[0].ops[1]";
const ATTR: &str = "blocks[0].ops[1].attrs[1]";

#[test]
fn whatever_gets_large_is_cut_no_more_than_needed_and_comes_back() {
    for (what, program, place) in LARGE {
        for bytes in [3 << 10, 30 << 10] {
            let program = program(bytes);
            let bytes = program.encode_to_vec();
            for max in [1 << 10, 10 << 10, 1 << 30] {
                for profile in [Profile::TensorFlow, Profile::Extended] {
                    let what = format!("{what} of {} bytes at {max}, {profile}", bytes.len());
                    let options = SplitOptions::new().max_chunk_size(max).profile(profile);
                    // Checks all limits, and that no chunk could have stayed in the message.
                    let outcome =
                        splits::check(&ProgramDescSplitter, &source(&bytes), &bytes, &options);
                    let Outcome::Split(split) = outcome else {
                        panic!("{what} can be cut");
                    };
                    assert!(split.byte_exact(), "{what}");
                    let merged = Merger::new().merge(&split.bytes(), &split.metadata);
                    assert!(merged.unwrap() == bytes, "{what}");
                    let plan = ProgramDescSplitter.plan(source(&bytes), &options).unwrap();
                    assert_eq!(plan.is_split(), bytes.len() as u64 > max, "{what}");
                    for chunk in &plan.chunks()[1..] {
                        let path = chunk.path().display(Some(plan.descriptor())).to_string();
                        // The path of a slice of a field is the path of the message that contains
                        // the field.
                        let is_there = path.starts_with(place) || place.starts_with(&path);
                        assert!(is_there, "{what}: {path}");
                    }
                }
            }
        }
    }
}

#[test]
fn one_text_of_many_is_cut_only_where_readers_are_to_know_of_it() {
    let strings = vec!["short".into(), "engine ".repeat(1000), "short".into()];
    let attr = Attr {
        strings,
        ..Attr::default()
    };
    let bytes = of_attr("engines", AttrType::Strings, attr).encode_to_vec();
    let options = SplitOptions::new().max_chunk_size(1 << 10);
    let error = ProgramDescSplitter
        .plan(source(&bytes), &options)
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("strings[1]") && text.contains("`extended`"),
        "{text}"
    );
    let options = options.profile(Profile::Extended);
    let outcome = splits::check(&ProgramDescSplitter, &source(&bytes), &bytes, &options);
    let Outcome::Split(split) = outcome else {
        panic!("it can be cut");
    };
    let merged = Merger::new().merge(&split.bytes(), &split.metadata);
    assert!(merged.unwrap() == bytes);
}

/// A source of text with the given size in bytes. The text isn't held in memory.
struct Text(u64);

impl ReadAt for Text {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.0.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        buf[..len].fill(b'e');
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0)
    }
}

const MIB: u64 = 1 << 20;

/// Returns a program with one op for each element of `ops`. The element contains the number of the
/// string field in the op's attribute, the number of strings, and the size of each string in MiB.
fn huge(ops: &[(u32, u64, u64)]) -> Spans {
    let mut spans = SpansBuilder::new();
    let text = spans.reader("text", Arc::new(Text(3000 * MIB))).unwrap();
    let begin = |spans: &mut SpansBuilder, number| spans.begin_field(FieldNumber(number)).unwrap();
    begin(&mut spans, 1);
    for (number, count, mib) in ops {
        begin(&mut spans, 4);
        begin(&mut spans, 4);
        for _ in 0..*count {
            field(&mut spans, *number, text, mib * MIB);
        }
        spans.end_field().unwrap();
        spans.end_field().unwrap();
    }
    spans.end_field().unwrap();
    spans.finish().unwrap()
}

fn field(spans: &mut SpansBuilder, number: u32, text: SourceId, size: u64) {
    spans.begin_field(FieldNumber(number)).unwrap();
    spans.span(text, 0..size).unwrap();
    spans.end_field().unwrap();
}

#[test]
fn more_than_1_gib_is_cut_where_it_is_large() {
    const TEXT: u32 = 5;
    const TEXTS: u32 = 8;
    const ATTR_OF_FIRST: &str = "blocks[0].ops[0].attrs[0]";
    let engine = |op: usize| format!("blocks[0].ops[{op}].attrs[0].s");
    for (ops, wanted) in [
        // A single engine that is larger than the maximum size of a chunk.
        (&[(TEXT, 1, 1100)][..], vec![engine(0)]),
        // Large values always get separate chunks, and small values stay in the program.
        (
            &[(TEXT, 1, 10), (TEXT, 1, 2500), (TEXTS, 2, 20)],
            vec![engine(0), engine(1)],
        ),
        // Each op is smaller than the maximum size of a chunk, but their sum is larger.
        (&[(TEXT, 1, 600); 2], vec![engine(0), engine(1)]),
        // Slices of a repeated field are small, so that a reader can read single elements. Here,
        // each slice has one element.
        (&[(TEXTS, 5, 300)], vec![ATTR_OF_FIRST.to_owned(); 4]),
    ] {
        let spans = Arc::new(huge(ops));
        let descriptor = descriptor_pool().get_message_by_name(PROGRAM_DESC).unwrap();
        let source = Source::from_spans(spans, descriptor);
        let options = SplitOptions::new().max_chunk_size(1 << 30);
        let plan = ProgramDescSplitter.plan(source, &options).unwrap();
        assert!(plan.byte_exact());
        let paths: Vec<_> = plan.chunks()[1..]
            .iter()
            .map(|chunk| chunk.path().display(Some(plan.descriptor())).to_string())
            .collect();
        assert_eq!(paths, wanted, "{ops:?}\n{plan}");
    }
}
