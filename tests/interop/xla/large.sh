#!/usr/bin/env bash
# Modules and profiles over 2 GiB, by hand: it takes 10 GiB of disk, 12 GiB of memory and some minutes. A module of 2.2 GB in three
# computations is written as a split proto, and read back; one with a computation of 2.3 GB is refused, and written as an
# extension; a profile of 2.3 GB, which XProf refuses as .pb, is served as .riegeli. run.sh makes the environment. READ_SPLIT_HLO
# names XLA's own reader, which reader/build.sh builds; without it, its steps are skipped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
cargo build --quiet --release --bin protosplit
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
exec .interop/xla-venv/bin/python "$here/large.py" --protosplit "$target/release/protosplit" "$@"
