//! Splits a message of a custom type, merges its chunks, and reads one field without merging.

use proto_splitter::prost_reflect::DescriptorPool;
use proto_splitter::split::{SizeSplitter, Source, SplitExt, SplitOptions};

#[derive(Clone, PartialEq, prost::Message)]
struct Album {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(bytes = "vec", repeated, tag = "2")]
    photos: Vec<Vec<u8>>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (title, photos) = ("Holiday".into(), vec![vec![7; 3 << 20]; 4]);
    let album = Album { title, photos };
    let schema = protox::compile(["album.proto"], [env!("CARGO_MANIFEST_DIR")])?;
    let pool = DescriptorPool::from_file_descriptor_set(schema)?;
    let descriptor = pool.get_message_by_name("Album").ok_or("no Album")?;
    let source = Source::from_message(&album, descriptor);
    let options = SplitOptions::new()
        .max_chunk_size(4 << 20)
        .embed_schema(true);
    let prefix = std::env::temp_dir().join("outside-album");
    let written = SizeSplitter.write_with(source, prefix, &options.force(true))?;
    let file = proto_splitter::open(&written.path)?;
    assert_eq!(file.read::<Album>()?, album);
    assert_eq!(file.get("title")?, "Holiday");
    println!(
        "{} chunks of {}",
        written.chunks.len(),
        written.path.display()
    );
    Ok(std::fs::remove_file(written.path)?)
}
