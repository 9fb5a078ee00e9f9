#!/usr/bin/env bash
# Builds XLA's reader against TensorFlow's wheel: reader/build.sh RIEGELI OUTPUT. RIEGELI is a checkout of
# https://github.com/google/riegeli, whose headers the wheel lacks, at d75c7a6580bdfed2424d49196c6225abebbf04d0, where the class Reader
# matches the wheel's. PYTHON names an interpreter with tensorflow-cpu 2.22.0rc0.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
headers=$1 output=$2
wheel=$("${PYTHON:-python3}" -c 'import importlib.util, os; print(os.path.dirname(importlib.util.find_spec("tensorflow").origin))')
g++ -O0 -std=c++17 -D_GLIBCXX_USE_CXX11_ABI=1 -I"$headers" -I"$wheel/include" "$here/read_split_hlo.cc" -o "$output" \
  -L"$wheel" -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 -Wl,-rpath,"$wheel"
