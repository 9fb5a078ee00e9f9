#!/usr/bin/env bash
# Splits, verifies and merges on a local cluster of Ray with three nodes, of which one is killed midway, and objects of moto's S3
# server. Takes the arguments of
# run.py: `--size 3GiB --table` for the measurements. Needs Rust and python3 (3.11 or later). Ends with `N passed, 0 failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
venv=$("$here/../environment.sh" ray python3 'ray==2.60.0' 'moto[server,s3]==5.2.5')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
WHEEL=$("$here/../wheel.sh" "$work")
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$work/site" "$WHEEL"
export RAY_USAGE_STATS_ENABLED=0
# Ray listens on its host's own address. In a network of its own that is the loopback's, and nobody else reaches it.
alone=(unshare --net)
[ "$(id -u)" = 0 ] || alone=(unshare --map-root-user --net)
export HOME=$work
# Workers find the package where this process does.
PYTHONPATH=$work/site "${alone[@]}" "$venv/bin/python" "$here/run.py" --work "$work" "$@"
