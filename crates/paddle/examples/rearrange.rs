//! Lists a Paddle model, makes one file of it, or writes its files in another arrangement.
//!
//! ```text
//! rearrange MODEL                       lists its parameters, a JSON object a line
//! rearrange MODEL OUT.cpb               makes one file of it
//! rearrange MODEL|IN.cpb FOLDER HOW     writes files: files, combined, separate, sized, model-format
//! ```
#![allow(clippy::print_stdout, reason = "a program")]

use std::error::Error;
use std::path::Path;

use proto_splitter_core::split::{SplitExt, SplitOptions};
use proto_splitter_paddle::stream::Layout;
use proto_splitter_paddle::{
    Arrangement, ModelSplitter, PaddleModel, WriteOptions, convert, write_model,
};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [model] => list(model),
        [model, out] => {
            // Small values are chunks of their own here, too, so that there is something to put together.
            let options = SplitOptions::new().max_chunk_size(1 << 10).force(true);
            let prefix = Path::new(out).with_extension("");
            let written =
                ModelSplitter.write_with(PaddleModel::open(model)?.source()?, &prefix, &options)?;
            println!(
                "{}: {} chunks",
                written.path.display(),
                written.chunks.len()
            );
            Ok(())
        }
        [model, folder, how] => {
            let options = WriteOptions::new().arrangement(match how {
                "files" => Arrangement::Original,
                "combined" => Arrangement::Combined(Layout::Paddle),
                "separate" => Arrangement::Separate(Layout::Paddle),
                other => Arrangement::Combined(other.parse()?),
            });
            let written = match model.ends_with(".cpb") {
                true => write_model(model, folder, &options)?,
                false => convert(&PaddleModel::open(model)?, folder, &options)?,
            };
            println!(
                "{}: {} files",
                written.folder.display(),
                written.files.len()
            );
            Ok(())
        }
        _ => Err("usage: rearrange MODEL [OUT.cpb | FOLDER HOW]".into()),
    }
}

fn list(model: &str) -> Result<(), Box<dyn Error>> {
    let model = PaddleModel::open(model)?;
    model.verify()?;
    for (file, parameter) in model.parameters() {
        let stream = parameter.stream();
        let mut data = vec![0; usize::try_from(stream.data().end - stream.data().start)?];
        stream.read_data(file.bytes(), &mut data)?;
        let line = json!({
            "name": parameter.name(),
            "dtype": stream.dtype().map(|dtype| dtype.as_str_name()),
            "dims": stream.dims(),
            "lod": stream.lod(file.bytes())?,
            "crc32": crc32(&data),
        });
        println!("{line}");
    }
    Ok(())
}

/// The checksum that Python's `zlib.crc32` has, too.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| match crc & 1 {
            1 => (crc >> 1) ^ 0xedb8_8320,
            _ => crc >> 1,
        })
    })
}
