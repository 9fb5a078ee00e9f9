//! Tests of a writer's options, as typed values and as a string.
use record_file::{Compression, ErrorKind, RecordWriter, WriterOptions};

fn parse(text: &str) -> WriterOptions {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn zstd(level: i32, window_log: u32) -> Compression {
    Compression::Zstd {
        level,
        window_log: Some(window_log),
    }
}

fn brotli(level: u32, window_log: u32) -> Compression {
    Compression::Brotli {
        level,
        window_log: Some(window_log),
    }
}

#[test]
fn a_string_means_what_the_setters_mean() {
    let new = WriterOptions::new;
    for (text, options) in [
        ("", new()),
        (",,", new()),
        ("default", new()),
        ("default,zstd", new().compression(Compression::zstd(3))),
        ("transpose", new().transpose(true)),
        ("transpose:true", new().transpose(true)),
        ("transpose:false", new()),
        ("uncompressed", new().compression(Compression::None)),
        ("brotli", new()),
        ("brotli:", new()),
        ("brotli:11", new().compression(Compression::brotli(11))),
        ("zstd:0", new().compression(Compression::zstd(3))),
        ("zstd:-7", new().compression(Compression::zstd(-7))),
        ("snappy", new().compression(Compression::SNAPPY)),
        (
            "snappy:2",
            new().compression(Compression::Snappy { level: 2 }),
        ),
        ("window_log:26", new().compression(brotli(6, 26))),
        ("window_log:30,zstd:5", new().compression(zstd(5, 30))),
        ("zstd:5,window_log:10", new().compression(zstd(5, 10))),
        ("zstd,window_log:auto", new().compression(Compression::ZSTD)),
        ("brotli_encoder:cbrotli", new()),
        ("chunk_size:auto", new()),
        ("chunk_size:1", new().chunk_size(1)),
        ("chunk_size:1000B", new().chunk_size(1000)),
        ("chunk_size:1.5k", new().chunk_size(1536)),
        ("chunk_size:3K", new().chunk_size(3072)),
        ("chunk_size:4M", new().chunk_size(4 << 20)),
        ("chunk_size:4e0G", new().chunk_size(4 << 30)),
        ("chunk_size:2T", new().chunk_size(2 << 40)),
        ("chunk_size:2P", new().chunk_size(2 << 50)),
        ("chunk_size:100E", new().chunk_size(u64::MAX)),
        ("chunk_size:1e30", new().chunk_size(u64::MAX)),
        (
            "chunk_size:9007199254740993",
            new().chunk_size((1 << 53) + 1),
        ),
        ("bucket_fraction:0.25", new().bucket_fraction(0.25)),
        ("padding", new().padding(64 << 10)),
        ("padding:1000", new().padding(1000)),
        ("initial_padding", new().initial_padding(64 << 10)),
        ("final_padding:50", new().final_padding(50)),
        (
            "final_padding:50,padding:7",
            new().padding(7).final_padding(50),
        ),
        ("parallelism:2", new().threads(2)),
        (
            "transpose,zstd:5,chunk_size:4M,parallelism:2",
            new()
                .transpose(true)
                .compression(Compression::zstd(5))
                .chunk_size(4 << 20)
                .threads(2),
        ),
    ] {
        assert_eq!(parse(text), options, "{text}");
        assert_eq!(parse(&options.to_string()), options, "{options}");
        let mut reversed: Vec<_> = text.split(',').collect();
        reversed.reverse();
        if !text.contains("default") {
            assert_eq!(parse(&reversed.join(",")), options, "{text}, reversed");
        }
    }
}

#[test]
fn options_show_the_compression_and_what_is_not_the_default() {
    for text in [
        "brotli:6",
        "uncompressed",
        "snappy",
        "zstd:3,window_log:20",
        "brotli:6,padding:64K",
        "transpose,brotli:9,chunk_size:1M,bucket_fraction:0.5,initial_padding:7,final_padding:1000,parallelism:8",
    ] {
        assert_eq!(parse(text).to_string(), text);
    }
    assert_eq!(WriterOptions::new().to_string(), "brotli:6");
}

#[test]
fn a_string_that_cannot_be_meant_is_refused_and_the_error_names_the_option() {
    for (text, named) in [
        ("zstd,zstd", "zstd is given twice"),
        ("chunk_size:1,chunk_size:1", "chunk_size is given twice"),
        ("zstd,default", "default must come first"),
        ("default,default", "default is given twice"),
        ("default:1", "default"),
        ("zstd,brotli", "zstd and brotli exclude"),
        ("uncompressed,snappy", "uncompressed and snappy exclude"),
        ("uncompressed:1", "uncompressed"),
        ("uncompressed,window_log:20", "window_log"),
        ("window_log:20,snappy", "window_log"),
        ("snappy,window_log:auto", "window_log"),
        ("window_log", "window_log"),
        ("window_log:9", "window_log 9"),
        ("window_log:31", "window_log 31"),
        ("zstd,window_log:32", "window_log 32"),
        ("zstd:23", "level 23"),
        ("zstd:-131073", "level -131073"),
        ("brotli:12", "level 12"),
        ("brotli:-1", "brotli"),
        ("snappy:3", "level 3"),
        ("transpose:1", "transpose"),
        ("chunk_size", "chunk_size"),
        ("chunk_size:0", "chunk_size"),
        ("chunk_size:0.0004K", "chunk_size"),
        ("chunk_size:-1", "chunk_size"),
        ("chunk_size:K", "chunk_size"),
        ("chunk_size:1Z", "chunk_size"),
        ("chunk_size:nan", "chunk_size"),
        ("chunk_size:inf", "chunk_size"),
        ("bucket_fraction", "bucket_fraction"),
        ("bucket_fraction:1.1", "bucket_fraction"),
        ("bucket_fraction:-0.1", "bucket_fraction"),
        ("bucket_fraction:nan", "bucket_fraction"),
        ("padding:0", "padding"),
        ("brotli_encoder", "brotli_encoder"),
        ("brotli_encoder:fast", "brotli_encoder"),
        ("parallelism", "parallelism"),
        ("parallelism:-1", "parallelism"),
        ("parallelism:4294967296", "parallelism"),
        ("Zstd", "Zstd"),
        (" zstd", " zstd"),
        ("metadata", "metadata"),
    ] {
        let error = text.parse::<WriterOptions>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{text}");
        assert!(error.to_string().contains(named), "{text}: {error}");
    }
}

#[test]
fn options_out_of_range_are_refused_before_a_byte_is_written() {
    let new = WriterOptions::new;
    let mut refused = vec![
        new().chunk_size(0),
        new().initial_padding(0),
        new().final_padding(0),
        new().bucket_fraction(-0.5),
        new().bucket_fraction(1.5),
        new().bucket_fraction(f64::NAN),
    ];
    refused.extend(
        [
            Compression::zstd(23),
            Compression::zstd(-131_073),
            zstd(3, 9),
            zstd(3, 32),
            Compression::brotli(12),
            brotli(6, 9),
            brotli(6, 31),
            Compression::Snappy { level: 0 },
        ]
        .map(|compression| new().compression(compression)),
    );
    for options in refused {
        let mut written = Vec::new();
        let error = RecordWriter::new(&mut written, options.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{options:?}");
        assert!(written.is_empty());
    }
    for fraction in [0.0, 0.5, 1.0] {
        RecordWriter::new(Vec::new(), new().bucket_fraction(fraction)).unwrap();
    }
}
