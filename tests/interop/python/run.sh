#!/usr/bin/env bash
# Builds the Python wheel, and packs the other published files. Runs the README's code with the wheel alone; checks the types, stubs and
# import time; runs the tests with every installed version of Python. Then runs shim.py, again.py, zoo.py, compat.py and saving.py with
# TensorFlow 2.21, s3.py, versions.sh, onnx_session.py with onnxruntime, and ../onnx/tools.py with twelve tools. shim.py and
# onnx_session.py get all arguments. With --whole as the first argument, also runs whole.py, which takes 12 GB of disk and of memory.
# Needs Rust, python3 (3.11 or later), g++ for ../setup.sh, and openssl for gcs_server.py.
set -euo pipefail

whole=
if [ "${1:-}" = --whole ]; then
  whole=yes
  shift
fi

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
cd "$top/crates/python"
environment=$top/tests/interop/environment.sh
packages=('numpy>=1.26' 'protobuf>=5.29' fsspec hypothesis ml_dtypes pytest)
venv=$("$environment" python python3 "${packages[@]}" 'maturin>=1.14,<2' mypy twine types-protobuf)

# Shares compiled dependencies with the build of the command.
export CARGO_TARGET_DIR=$top/target
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
WHEEL=$("$top/tests/interop/wheel.sh" "$wheels")
export WHEEL
"$venv/bin/twine" check --strict "$WHEEL"
# Packs the crates and the source distribution, from the working tree rather than a commit.
PATH=$venv/bin:$PATH "$top/.ci/package" "$wheels/published" --no-verify --allow-dirty
size=$(stat -c %s "$WHEEL")
echo "the wheel has $size bytes"
[ "$size" -lt 15000000 ] || { echo "the wheel is over 15 MB"; exit 1; }
"$venv/bin/python" "$top/tests/interop/python/fresh.py" "$WHEEL"
"$venv/bin/pip" install --quiet --no-deps --force-reinstall "$WHEEL"

"$venv/bin/mypy" --strict python/proto_splitter tests
# Changes to a folder without the package's source, so that the installed package is checked.
cd "$wheels"
"$venv/bin/stubtest" --ignore-unused-allowlist --allowlist "$top/crates/python/tests/stubtest-allowlist.txt" proto_splitter._core
"$venv/bin/protosplit" --version
"$venv/bin/python" "$top/tests/interop/python/import_time.py"
"$venv/bin/python" -X faulthandler -m pytest -p no:cacheprovider --rootdir "$top/crates/python" "$top/crates/python/tests"
# The wheel also supports later versions of Python. Tests the wheel with those that are installed.
for version in 3.12 3.13 3.14; do
  for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    "$python" --version >/dev/null 2>&1 || continue
    later=$("$environment" "python-$version" "$python" "${packages[@]}")
    "$later/bin/pip" install --quiet --no-deps --force-reinstall "$WHEEL"
    "$later/bin/python" --version
    "$later/bin/python" -X faulthandler -m pytest -p no:cacheprovider --rootdir "$top/crates/python" "$top/crates/python/tests"
    break
  done
done

# TensorFlow has a separate environment.
"$top/tests/interop/setup.sh"
# fsspec is needed for a session of a model at a URL.
"$venv/bin/pip" install --quiet --no-deps --target "$wheels/site" "$WHEEL" fsspec
PYTHONPATH=$wheels/site "$top/.interop/tensorflow-venv/bin/python" "$top/tests/interop/python/shim.py" "$@"
PYTHONPATH=$wheels/site "$top/.interop/tensorflow-venv/bin/python" "$top/tests/interop/python/again.py"
PYTHONPATH=$wheels/site "$top/.interop/tensorflow-venv/bin/python" "$top/tests/interop/python/zoo.py"
PYTHONPATH=$wheels/site "$top/.interop/tensorflow-venv/bin/python" "$top/tests/interop/python/compat.py"
PYTHONPATH=$wheels/site "$top/.interop/tensorflow-venv/bin/python" "$top/tests/interop/python/saving.py"
if [ -n "$whole" ]; then
  PYTHONPATH=$wheels/site "$top/.interop/tensorflow-venv/bin/python" "$top/tests/interop/python/whole.py"
fi
# TensorFlow's file system for s3:// is in tensorflow-io, whose last version is for TensorFlow 2.16 and Python up to 3.12.
if python3 -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then
  s3=$("$environment" s3 python3 tensorflow-cpu==2.16.2 tensorflow-io==0.37.1 'moto[s3,server]==5.2.5')
  PYTHONPATH=$wheels/site "$s3/bin/python" "$top/tests/interop/python/s3.py"
fi
"$top/tests/interop/python/versions.sh"
# Uses the same environment as ../onnx/run.sh.
onnx=$("$environment" onnx python3 onnx==1.23.2 onnxruntime==1.31.1 onnx-ir==1.1.0)
PYTHONPATH=$wheels/site "$onnx/bin/python" "$top/tests/interop/python/onnx_session.py" "$@"
# The twelve tools need a separate environment.
tools=$("$environment" onnx-tools python3 onnx==1.23.2 onnxruntime==1.31.1 onnxsim==0.8.1 onnxslim==0.1.98 \
  onnxconverter-common==1.16.0 onnx-graphsurgeon==0.6.1 sympy==1.14.0 colorama setuptools)
PYTHONPATH=$wheels/site "$tools/bin/python" "$top/tests/interop/onnx/tools.py"
