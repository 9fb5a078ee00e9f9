//! The commands `protosplit sign` and `protosplit verify --signature`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use proto_splitter::atomic::AtomicFile;
use proto_splitter::container::is_named_chunked;
use proto_splitter::{ChunkedFile, Error, ErrorKind, Result};
use proto_splitter_sign::{
    SignOptions, Signature, SignatureReport, SigningKey, VerifyOptions, VerifyingKey, sign, verify,
};
use serde::Serialize;

use crate::Exit;
use crate::args::{SignArgs, VerifyArgs};
use crate::display_name::shown;
use crate::failure::Failure;
use crate::output::Output;
use crate::output_file::made_from;
use crate::place::is_chunked_at;
use crate::sanitize::one_line;
use crate::size;
use crate::table::facts;

/// Maximum size of a key file, in bytes.
const MAX_KEY: u64 = 1 << 20;

#[derive(Serialize)]
struct SignedReport<'a> {
    #[serde(serialize_with = "path_text")]
    file: &'a Path,
    #[serde(serialize_with = "path_text")]
    signature: &'a Path,
    bytes: usize,
}

#[derive(Serialize)]
struct CheckedReport<'a> {
    #[serde(serialize_with = "path_text")]
    file: &'a Path,
    ok: bool,
    #[serde(flatten)]
    report: &'a SignatureReport,
}

fn path_text<S: serde::Serializer>(path: &Path, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

pub(crate) fn run(args: &SignArgs, output: &mut Output<'_>) -> std::result::Result<Exit, Failure> {
    let target = args
        .output
        .clone()
        .unwrap_or_else(|| default_target(&args.model));
    check_whole(&args.model)?;
    let key = read_text(&args.key).and_then(|pem| SigningKey::from_pem(&pem));
    let key = key.map_err(|error| Failure::of(&args.key, &error))?;
    // The signature's permissions are those of the model, or narrower.
    let create = || {
        AtomicFile::create(&target, &made_from([&*args.model], &[]), args.force)
            .map_err(|error| Failure::of(&target, &error))
    };
    // The file is created and dropped once before the model is hashed, so that an error is reported
    // early. The file must not exist while the model is hashed, since it may be in the model's
    // folder.
    drop(create()?);
    let options = SignOptions::new()
        .ignore(&target)
        .threads(args.threads.threads)
        .progress(output.reading("hashing"));
    let signature =
        sign(&args.model, &key, &options).map_err(|error| Failure::of(&args.model, &error))?;
    let json = signature
        .to_json()
        .map_err(|error| Failure::of(&target, &error))?;
    let written = create()?.write(|sink| Ok(sink.write_all(&json)?));
    written.map_err(|error| Failure::of(&target, &error))?;
    let report = SignedReport {
        file: &args.model,
        signature: &target,
        bytes: json.len(),
    };
    output.done(args.json, &report, |report, _| {
        let (signature, bytes) = (
            one_line(&shown(report.signature)),
            size::show(report.bytes as u64),
        );
        format!("signed: {signature}, {bytes}\n")
    })
}

/// Returns the model's path with `.sig` appended: `model.sig` for the file `model` or the folder
/// `model/`. If `model` ends in `.` or `..`, it is first resolved to the folder to which it leads.
fn default_target(model: &Path) -> PathBuf {
    let model = match model.file_name() {
        Some(_) => model.to_owned(),
        None => model.canonicalize().unwrap_or_else(|_| model.to_owned()),
    };
    let mut name = model.components().as_path().as_os_str().to_owned();
    name.push(".sig");
    PathBuf::from(name)
}

/// Fails if the model has chunks in other files, which a signature of this one file wouldn't cover.
fn check_whole(model: &Path) -> std::result::Result<(), Failure> {
    if !model.is_file() || !is_chunked_at(model) {
        return Ok(());
    }
    let files = match ChunkedFile::open(model) {
        Ok(files) => files,
        // A record file that isn't in chunks consists of a single file.
        Err(error) if error.kind() == ErrorKind::NotChunked && !is_named_chunked(model) => {
            return Ok(());
        }
        Err(error) => return Err(Failure::of(model, &error)),
    };
    match files.record_files().count() {
        0 | 1 => Ok(()),
        files => Err(Failure::usage(format!(
            "{}: its chunks are in {files} files: sign the folder that holds them",
            shown(model)
        ))),
    }
}

/// Runs `protosplit verify --signature`.
pub(crate) fn run_verify(
    args: &VerifyArgs,
    signature: &Path,
    output: &mut Output<'_>,
) -> std::result::Result<Exit, Failure> {
    let Some(key) = &args.key else {
        return Err(Failure::usage("--signature needs --key KEY.pub".to_owned()));
    };
    let public = read_text(key).and_then(|pem| VerifyingKey::from_pem(&pem));
    let public = public.map_err(|error| Failure::of(key, &error))?;
    let parsed = read_at_most(signature, Signature::MAX_SIZE + 1)
        .and_then(|json| Signature::from_json(&json));
    let parsed = parsed.map_err(|error| Failure::of(signature, &error))?;
    let options = VerifyOptions::new()
        .ignore(signature)
        .threads(args.threads.threads)
        .progress(output.reading("hashing"));
    let model = args.file();
    check_whole(model)?;
    let report =
        verify(model, &parsed, &public, &options).map_err(|error| Failure::of(model, &error))?;
    let checked = CheckedReport {
        file: model,
        ok: report.is_good(),
        report: &report,
    };
    output.verdict(checked.ok, args.json, &checked, |checked, _| text(checked))
}

fn text(checked: &CheckedReport<'_>) -> String {
    let report = checked.report;
    let mut lines = vec![
        ("file", one_line(&shown(checked.file))),
        ("signed as", one_line(&report.model)),
        ("equal", size::count(report.equal, "file")),
    ];
    let lists = [
        ("changed", &report.changed),
        ("missing", &report.missing),
        ("not signed", &report.unsigned),
    ];
    for (what, names) in lists {
        lines.extend(names.iter().map(|name| (what, one_line(name))));
    }
    let result = if checked.ok {
        "ok"
    } else {
        "differs from the signed file"
    };
    lines.push(("result", result.to_owned()));
    facts(&lines)
}

fn read_text(path: &Path) -> Result<String> {
    let bytes = read_at_most(path, MAX_KEY)?;
    String::from_utf8(bytes)
        .map_err(|_| Error::new(proto_splitter::ErrorKind::InvalidConfig, "not a key in PEM"))
}

fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
