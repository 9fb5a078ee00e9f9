#!/usr/bin/env bash
# Saves and loads with the earliest and the latest versions of Python, TensorFlow, protobuf and Keras that are supported: the ends of
# the table in docs/python.md, each with a wheel for it. Python 3.10 has a wheel of its own. A Python that isn't here is named and
# left out. Needs Rust, python3 and, the first time, access to PyPI.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
venv=$top/.interop/versions-venv
if [ ! -x "$venv/bin/maturin" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet 'maturin>=1.14,<2'
fi
export CARGO_TARGET_DIR=$top/target
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT

# Version of Python, requirements, options of maturin.
check() {
  local version=$1 python folder=$top/.interop/versions-$1-venv
  for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    "$python" --version >/dev/null 2>&1 && break
    python=
  done
  [ -n "$python" ] || { echo "Python $version isn't here"; return; }
  if [ ! -e "$folder/.complete" ]; then
    "$python" -m venv "$folder"
    # shellcheck disable=SC2086
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-compile $2
    touch "$folder/.complete"
  fi
  # shellcheck disable=SC2086
  (cd "$top/crates/python" && "$venv/bin/maturin" build --quiet --release --out "$wheels/$version" --interpreter "$folder/bin/python" $3)
  "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheels/$version"/*.whl
  (cd "$wheels" && "$folder/bin/python" "$top/tests/interop/python/versions.py")
}

check 3.10 'tensorflow-cpu==2.16.2 protobuf==3.20.3' --no-default-features
check 3.13 '--pre tensorflow-cpu>=2.21' ''
