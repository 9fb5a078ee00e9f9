#!/usr/bin/env bash
# Builds the Python wheel into the given folder and prints its path, or prints WHEEL if it is set. The second argument names the
# interpreter to build for; by default, the script creates one. Further arguments are passed to maturin. Needs Rust and python3 (3.11 or
# later).
set -euo pipefail

if [ -n "${WHEEL:-}" ]; then
  echo "$WHEEL"
  exit
fi
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$1
venv=$("$top/tests/interop/environment.sh" wheel "${PYTHON:-python3}" 'maturin>=1.14,<2')
interpreter=${2:-$venv/bin/python}
# Shares compiled dependencies with the build of the command.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$top/target}
cd "$top/crates/python"
"$venv/bin/maturin" build --quiet --release --out "$out" --interpreter "$interpreter" "${@:3}" >&2
echo "$out"/*.whl
