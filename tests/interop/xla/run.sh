#!/usr/bin/env bash
# Checks split protos and profiles against JAX, jaxlib's reader of executables, and XProf, from PyPI. JAX dumps twelve programs: the merged
# dumps must equal the whole modules, and an independent reader must read the modules that we split. XProf must read the same from a
# profile in records as from the profile in one piece. PYTHON names an interpreter. See run.py.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
# JAX 0.12 dumps split protos and reads executables, and needs Python 3.12. Without it, only the stored dumps are checked.
jax=0.12.0.1
is_new() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; }
python=${PYTHON:-python3}
for found in python3.13 python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3; do
  is_new "$python" || ! is_new "$found" || python=$found
done
is_new "$python" || jax=0.10.2
venv=$("$here/../environment.sh" xla "$python" "jax==$jax" "jaxlib==$jax" xprof==2.24.2 protobuf cramjam 'setuptools<81')
cargo build --quiet --release --bin protosplit
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
exec "$venv/bin/python" "$here/run.py" --protosplit "$target/release/protosplit" "$@"
