#!/usr/bin/env bash
# Installs TensorFlow with its dependencies from PyPI into .interop/ at the root of the repository and builds tf_read over it.
# Needs python3 (3.10 to 3.13, with venv), g++ and, the first time, access to PyPI; Linux only, since TensorFlow
# leaves its Merger out of the other builds. Does nothing when all is there.
set -euo pipefail

version=2.21.0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
dir=$root/.interop
venv=$dir/venv
stamp=$dir/tensorflow-cpu-$version

for tool in python3 g++; do
  command -v "$tool" >/dev/null || { echo "setup.sh: needs $tool" >&2; exit 2; }
done
mkdir -p "$dir"

# Two runs at a time would install over each other.
if command -v flock >/dev/null; then
  exec 9>"$dir/lock"
  flock 9
fi

python=$venv/bin/python
# Without compiling all of it: few of the modules are ever imported, and those are compiled then.
install() {
  "$python" -m pip install --quiet --disable-pip-version-check --retries 5 --no-compile \
    "tensorflow-cpu==$version" 'protobuf>=6.31.1,<8'
}

# The stamp holds the folder: a repository that was moved has a venv that points to where it was.
if [ "$(cat "$stamp" 2>/dev/null)" != "$venv" ] || ! "$python" -c 'import google.protobuf' 2>/dev/null; then
  echo "setup.sh: installing tensorflow-cpu $version into .interop" >&2
  rm -rf "$venv" "$dir"/tensorflow-cpu-* "$dir/tf_read"
  python3 -m venv "$venv"
  install
  echo "$venv" >"$stamp"
elif ! "$python" -m pip --disable-pip-version-check check >/dev/null 2>&1; then
  # What is there stays: once, it was installed without its dependencies.
  echo "setup.sh: installing what tensorflow-cpu $version in .interop lacks" >&2
  install
fi

tf=$("$python" -c 'import importlib.util as u; print(u.find_spec("tensorflow").submodule_search_locations[0])')
if [ "$here/tf_read.cc" -nt "$dir/tf_read" ] || ! "$dir/tf_read" </dev/null 2>/dev/null; then
  echo "setup.sh: building tf_read" >&2
  # -w: the warnings are those of TensorFlow's headers.
  g++ -O1 -std=c++17 -w -I"$tf/include" "$here/tf_read.cc" -o "$dir/tf_read.new" \
    -L"$tf" -l:libtensorflow_framework.so.2 -Wl,-rpath,"$tf"
  mv "$dir/tf_read.new" "$dir/tf_read"
fi
