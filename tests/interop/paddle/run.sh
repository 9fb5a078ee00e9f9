#!/usr/bin/env bash
# Checks our files against Paddle 2.6.2 and 3.3.1: see run.py. Each version is installed from PyPI into a separate environment below
# .interop, since they need different releases of NumPy. Needs python3 (3.9 to 3.11 for 2.6.2) and cargo.
#
# If REARRANGE is set, it is the path of a build of crates/paddle/examples/rearrange.rs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
cd "$root"
mkdir -p .interop

python=
for candidate in python3.11 python3.10 python3.9 python3; do
  if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys, venv; sys.exit(not (3, 9) <= sys.version_info < (3, 12))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || { echo "run.sh: needs Python 3.9 to 3.11, which Paddle 2.6.2 is built for" >&2; exit 2; }

"$here/../environment.sh" paddle-2.6.2 "$python" paddlepaddle==2.6.2 'numpy<2' setuptools >/dev/null &
first=$!
"$here/../environment.sh" paddle-3.3.1 "$python" paddlepaddle==3.3.1 setuptools >/dev/null &
second=$!
if [ -z "${REARRANGE:-}" ]; then
  cargo build --quiet --release --example rearrange
  target=$(cargo metadata --no-deps --format-version 1 | "$python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
  REARRANGE=$target/release/examples/rearrange
fi
wait "$first"
wait "$second"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Each version writes models, which we convert, and reads the results. The second version also reads the models of the first.
failed=0
for version in 2.6.2 3.3.1; do
  "$root/.interop/paddle-$version-venv/bin/python" "$here/run.py" --rearrange "$REARRANGE" --work "$work" \
    --schema crates/paddle/src/proto/descriptors.binpb --fixtures tests/data/paddle >"$work/$version.log" 2>"$work/$version.err" || failed=1
  if ! grep -q '^passed ' "$work/$version.log"; then
    tail -20 "$work/$version.err" >&2
    failed=1
  fi
  sed -n '/^\(FAILED\|paddle\)/p' "$work/$version.log"
done
passed=$(awk '/^passed / { sum += $2 } END { print sum + 0 }' "$work"/*.log)
wrong=$(awk '/^failed / { sum += $2 } END { print sum + 0 }' "$work"/*.log)
[ "$failed" = 0 ] || [ "$wrong" -gt 0 ] || wrong=1
echo "$passed passed, $wrong failed"
[ "$wrong" = 0 ]
