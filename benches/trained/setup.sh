#!/usr/bin/env bash
# Downloads trained weights for `cargo bench --bench compression` from PyPI into .interop/trained at the root of the repository: the ONNX
# models of text recognition in the wheel of ddddocr (MIT license), 74 MB as float32 and 13.5 MB as 8-bit integers.
# Needs python3 with venv and, the first time, access to PyPI. Does nothing if the weights exist.
set -euo pipefail

version=1.6.1
sha256=c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
dir=$root/.interop/trained

if [ "$(cat "$dir/version" 2>/dev/null)" != "$version" ]; then
  rm -rf "$dir"
  mkdir -p "$dir"
  python3 -m venv "$dir/venv"
  echo "ddddocr==$version --hash=sha256:$sha256" >"$dir/requirements.txt"
  "$dir/venv/bin/python" -m pip download --quiet --disable-pip-version-check --retries 5 --no-deps --only-binary :all: \
    --require-hashes --requirement "$dir/requirements.txt" --dest "$dir"
  python3 - "$dir"/ddddocr-*.whl "$dir" <<'END'
import pathlib, sys, zipfile

wheel, folder = sys.argv[1], pathlib.Path(sys.argv[2])
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        if name.endswith(".onnx"):
            (folder / pathlib.PurePosixPath(name).name).write_bytes(archive.read(name))
END
  rm -rf "$dir/venv" "$dir"/ddddocr-*.whl "$dir/requirements.txt"
  echo "$version" >"$dir/version"
fi
