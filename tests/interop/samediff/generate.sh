#!/usr/bin/env bash
# Has flatc generate the Python code in generated/ from crates/samediff/schemas; with --check, fails if that would change it.
# $FLATC is the compiler, by default the one on the path. It must be 2.0.8, Debian's: others print other code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
"${FLATC:-flatc}" --python -o "$new" crates/samediff/schemas/{flat_graph,samediff}.fbs
old=tests/interop/samediff/generated
if [ "${1:-}" = --check ]; then
  diff -r --exclude=__pycache__ "$old" "$new"
  echo "what flatc generates from the schemas is what is checked in"
else
  rm -rf "$old"
  cp -r "$new" "$old"
fi
