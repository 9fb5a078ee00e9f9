#!/usr/bin/env bash
# Installs array_record, Google's C++ with a Python module, from PyPI into .interop/array_record at the root of the repository.
# Needs python3 (3.10 or later, with venv) on Linux and, the first time, access to PyPI. Does nothing if it is installed.
set -euo pipefail

version=0.8.6
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
venv=$root/.interop/array_record

if [ "$(cat "$venv/version" 2>/dev/null)" != "$version" ] || ! "$venv/bin/python" -c 'import array_record' 2>/dev/null; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 5 "array_record==$version"
  echo "$version" >"$venv/version"
fi
