#!/usr/bin/env bash
# Saves and loads with the earliest and the latest supported versions of Python, TensorFlow, protobuf and Keras, which are the first and
# the last row of the table in docs/python.md. Python 3.10 has a separate wheel. A version of Python that isn't installed is reported and
# skipped. Needs Rust, python3 and, the first time, access to PyPI.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT

# check VERSION REQUIREMENTS MATURIN_OPTIONS WHEEL: checks a version of Python. Builds the wheel unless WHEEL names one.
check() {
  local version=$1 python wheel folder
  for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    "$python" --version >/dev/null 2>&1 && break
    python=
  done
  [ -n "$python" ] || { echo "Python $version isn't here"; return; }
  # shellcheck disable=SC2086
  folder=$("$top/tests/interop/environment.sh" "versions-$version" "$python" $2)
  # shellcheck disable=SC2086
  wheel=$(WHEEL=$4 "$top/tests/interop/wheel.sh" "$wheels/$version" "$folder/bin/python" $3)
  "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
  (cd "$wheels" && "$folder/bin/python" "$top/tests/interop/python/versions.py")
}

check 3.10 'tensorflow-cpu==2.16.2 protobuf==3.20.3' --no-default-features ''
check 3.13 '--pre tensorflow-cpu>=2.21' '' "${WHEEL:-}"
