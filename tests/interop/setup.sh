#!/usr/bin/env bash
# Installs TensorFlow and its dependencies from PyPI into .interop/tensorflow-venv at the root of the repository, and builds tf_read, which
# uses TensorFlow's library, unless both exist. Needs python3 (3.10 to 3.13, with venv), g++ and, the first time, access to PyPI. Works on
# Linux only, since TensorFlow's other builds lack the Merger.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(cd "$here/../.." && pwd)/.interop
for tool in python3 g++; do
  command -v "$tool" >/dev/null || { echo "setup.sh: needs $tool" >&2; exit 2; }
done
venv=$("$here/environment.sh" tensorflow python3 tensorflow-cpu==2.21.0 'protobuf>=6.31.1,<8')

# Without the lock, two processes at a time would overwrite each other's files.
exec 9>"$dir/lock"
flock 9
tf=$("$venv/bin/python" -c 'import importlib.util as u; print(u.find_spec("tensorflow").submodule_search_locations[0])')
# tf_read contains the path of TensorFlow's folder, which changes if the repository is moved.
if [ "$here/tf_read.cc" -nt "$dir/tf_read" ] || ! "$dir/tf_read" </dev/null 2>/dev/null; then
  echo "setup.sh: building tf_read" >&2
  # -w suppresses warnings, since TensorFlow's headers cause them.
  g++ -O1 -std=c++17 -w -I"$tf/include" "$here/tf_read.cc" -o "$dir/tf_read.new" \
    -L"$tf" -l:libtensorflow_framework.so.2 -Wl,-rpath,"$tf"
  mv "$dir/tf_read.new" "$dir/tf_read"
fi
