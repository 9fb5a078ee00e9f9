#!/usr/bin/env bash
# Checks modules and profiles over 2 GiB. Run by hand, since it takes 10 GiB of disk, 12 GiB of memory and some minutes. A module of 2.2 GB
# in three computations is written as a split proto, and read back. A module with a computation of 2.3 GB is refused, and then written in
# the form that only this program reads. A profile of 2.3 GB, which XProf refuses as .pb, is served as .riegeli. run.sh creates the
# environment. READ_SPLIT_HLO names XLA's own reader, built by reader/build.sh; without it, the steps that need the reader are skipped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
cargo build --quiet --release --bin protosplit
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
exec .interop/xla-venv/bin/python "$here/large.py" --protosplit "$target/release/protosplit" "$@"
