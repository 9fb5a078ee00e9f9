#!/usr/bin/env bash
# Generates the Python code in generated/ from crates/samediff/schemas with flatc. With --check, fails if that would change the code.
# $FLATC is the compiler; by default, flatc on the PATH. It must be Debian's version, 2.0.8, since other versions generate different code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
"${FLATC:-flatc}" --python -o "$new" crates/samediff/schemas/{flat_graph,samediff}.fbs
old=tests/interop/samediff/generated
if [ "${1:-}" = --check ]; then
  diff -r --exclude=__pycache__ "$old" "$new"
  echo "the generated code is up to date"
else
  rm -rf "$old"
  cp -r "$new" "$old"
fi
