#!/usr/bin/env bash
# Tries every command on small files that claim large sizes, each with 1 GiB of address space and 20 seconds, and prints a table of
# memory and time (table.md has the table of one run); see run.py. Needs Rust, python3 and 1 GiB of disk; takes some minutes. With an
# argument, a table of all commands is written to that file.
set -euo pipefail
cd "$(dirname "$0")/../.."

command -v python3 >/dev/null || { echo "tests/bombs: python3 is needed" >&2; exit 1; }
cargo build --quiet --release --bin protosplit
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cargo run --quiet --release -p proto-splitter-testkit --example bombs "$folder"
python3 tests/bombs/run.py "$target/release/protosplit" "$folder" "$@"
