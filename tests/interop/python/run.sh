#!/usr/bin/env bash
# Builds the Python wheel, packs what is published beside it, runs the README's lines with the wheel alone, and its types, stubs,
# import time and tests against it, the tests with every version of Python that is here; then shim.py, again.py, zoo.py, compat.py and saving.py against TensorFlow 2.21, versions.sh,
# onnx_session.py against onnxruntime, where shim.py and onnx_session.py get all arguments, and ../onnx/tools.py against twelve tools. Needs Rust, python3 (3.11 or later), and
# g++ for ../setup.sh.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
cd "$top/crates/python"
venv=$top/.interop/python-venv
if [ ! -x "$venv/bin/maturin" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet 'maturin>=1.14,<2' 'numpy>=1.26' 'protobuf>=5.29' fsspec hypothesis ml_dtypes mypy pytest twine types-protobuf
fi

# What the command's build has compiled already serves here, too.
export CARGO_TARGET_DIR=$top/target
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
WHEEL=$("$top/tests/interop/wheel.sh" "$wheels")
export WHEEL
"$venv/bin/twine" check --strict "$WHEEL"
# What is published beside the wheel; the state of this folder, not of a commit.
PATH=$venv/bin:$PATH "$top/.ci/package" "$wheels/published" --no-verify --allow-dirty
size=$(stat -c %s "$WHEEL")
echo "the wheel has $size bytes"
[ "$size" -lt 15000000 ] || { echo "the wheel is over 15 MB"; exit 1; }
"$venv/bin/python" "$top/tests/interop/python/fresh.py" "$WHEEL"
"$venv/bin/pip" install --quiet --no-deps --force-reinstall "$WHEEL"

"$venv/bin/mypy" --strict python/proto_splitter tests
# Away from the sources, so that it is the installed package that is looked at.
cd "$wheels"
"$venv/bin/stubtest" --ignore-unused-allowlist --allowlist "$top/crates/python/tests/stubtest-allowlist.txt" proto_splitter._core
"$venv/bin/protosplit" --version
"$venv/bin/python" "$top/tests/interop/python/import_time.py"
"$venv/bin/python" -X faulthandler -m pytest -p no:cacheprovider --rootdir "$top/crates/python" "$top/crates/python/tests"
# The one wheel is for every later version, too: those that the machine has.
for version in 3.12 3.13 3.14; do
  for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    "$python" --version >/dev/null 2>&1 || continue
    later=$top/.interop/python-$version-venv
    if [ ! -x "$later/bin/pytest" ]; then
      "$python" -m venv "$later"
      "$later/bin/pip" install --quiet 'numpy>=1.26' 'protobuf>=5.29' fsspec hypothesis ml_dtypes pytest
    fi
    "$later/bin/pip" install --quiet --no-deps --force-reinstall "$WHEEL"
    "$later/bin/python" --version
    "$later/bin/python" -X faulthandler -m pytest -p no:cacheprovider --rootdir "$top/crates/python" "$top/crates/python/tests"
    break
  done
done

# TensorFlow has an environment of its own.
"$top/tests/interop/setup.sh"
# A session takes URLs, too, with fsspec.
"$venv/bin/pip" install --quiet --no-deps --target "$wheels/site" "$WHEEL" fsspec
PYTHONPATH=$wheels/site "$top/.interop/venv/bin/python" "$top/tests/interop/python/shim.py" "$@"
PYTHONPATH=$wheels/site "$top/.interop/venv/bin/python" "$top/tests/interop/python/again.py"
PYTHONPATH=$wheels/site "$top/.interop/venv/bin/python" "$top/tests/interop/python/zoo.py"
PYTHONPATH=$wheels/site "$top/.interop/venv/bin/python" "$top/tests/interop/python/compat.py"
PYTHONPATH=$wheels/site "$top/.interop/venv/bin/python" "$top/tests/interop/python/saving.py"
"$top/tests/interop/python/versions.sh"
onnx=$top/.interop/onnx-venv
if ! [ -f "$onnx/.complete" ]; then
  # Another script is still at it, or never ran.
  onnx=$top/.interop/python-onnx-venv
  python3 -m venv "$onnx"
  "$onnx/bin/pip" install --quiet --disable-pip-version-check onnx==1.23.2 onnxruntime==1.31.1
fi
PYTHONPATH=$wheels/site "$onnx/bin/python" "$top/tests/interop/python/onnx_session.py" "$@"
# The tools that people run need packages of their own.
tools=$top/.interop/onnx-tools-venv
if ! [ -f "$tools/.complete" ]; then
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check onnx==1.23.2 onnxruntime==1.31.1 onnxsim==0.8.1 onnxslim==0.1.98 \
    onnxconverter-common==1.16.0 onnx-graphsurgeon==0.6.1 sympy==1.14.0 colorama setuptools
  touch "$tools/.complete"
fi
PYTHONPATH=$wheels/site "$tools/bin/python" "$top/tests/interop/onnx/tools.py"
