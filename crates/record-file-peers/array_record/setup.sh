#!/usr/bin/env bash
# Installs array_record, Google's C++ library with a Python module, from PyPI into .interop at the root of the repository.
# Needs python3 (3.10 or later, with venv) on Linux and, the first time, access to PyPI. Does nothing if it is installed.
set -euo pipefail

version=0.8.6
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
"$root/tests/interop/environment.sh" array_record python3 "array_record==$version" >/dev/null
