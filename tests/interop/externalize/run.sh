#!/usr/bin/env bash
# Externalizes SavedModels and runs them with TensorFlow 2.21: see check.py, which gets all arguments. Then repeats the most important
# checks with TensorFlow 2.17, unless EXTERNALIZE_2_17=no or --only is given.
# Uses the TensorFlow that ../setup.sh installs, which needs python3 and g++. Also needs cargo. `--large 2560` sets the default size of
# the example's model, which takes 8 GiB of disk and of memory.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/../setup.sh"
cd "$here/../../.."
cargo build --quiet --release --bin protosplit
cargo build --quiet --release --example externalize
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
check=("$here/check.py" --protosplit "$target/release/protosplit")
.interop/tensorflow-venv/bin/python "${check[@]}" --example "$target/release/examples/externalize" "$@"

# The older version runs only a few random models, since these mostly test our own code, and no large models.
case "${EXTERNALIZE_2_17-} $*" in no*|*--only*) exit ;; esac
# TensorFlow 2.17 has no wheels for newer versions of Python.
python=$(for version in 3.12 3.11 3.10; do command -v "python$version" && break; done || true)
if [ -z "$python" ] || ! "$python" -c 'import venv' 2>/dev/null; then
  echo "run.sh: skipped: TensorFlow 2.17 needs Python 3.10 to 3.12" >&2
  exit
fi
old=$("$here/../environment.sh" tf-2.17 "$python" tensorflow-cpu==2.17.1)
"$old/bin/python" "${check[@]}" --random 12
