#!/usr/bin/env bash
# Externalizes SavedModels and has TensorFlow 2.21 run them: see check.py, which gets all arguments. Then does what matters most
# with TensorFlow 2.17 too, unless EXTERNALIZE_2_17=no or some checks --only were asked for.
# Shares the TensorFlow that ../setup.sh installs; needs python3, g++ for that, and cargo. `--large 2560` has the example's model
# be as large as it is by default, which takes 8 GiB of disk and of memory.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/../setup.sh"
cd "$here/../../.."
cargo build --quiet --release --bin protosplit
cargo build --quiet --release --example externalize
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
check=("$here/check.py" --protosplit "$target/release/protosplit")
.interop/tensorflow-venv/bin/python "${check[@]}" --example "$target/release/examples/externalize" "$@"

# What an older one is asked: no random models, whose point is what we make of them, and no large ones.
case "${EXTERNALIZE_2_17-} $*" in no*|*--only*) exit ;; esac
# There are no wheels of it for newer ones.
python=$(for version in 3.12 3.11 3.10; do command -v "python$version" && break; done || true)
if [ -z "$python" ] || ! "$python" -c 'import venv' 2>/dev/null; then
  echo "run.sh: TensorFlow 2.17 needs Python 3.10 to 3.12, which isn't here: not asked" >&2
  exit
fi
old=$("$here/../environment.sh" tf-2.17 "$python" tensorflow-cpu==2.17.1)
"$old/bin/python" "${check[@]}" --random 12
