#!/usr/bin/env bash
# Splits, verifies and merges on a local Ray cluster of three nodes, one of which is killed meanwhile, also with objects of moto's S3
# server. Accepts the arguments of run.py: `--size 3GiB --table` for the measurements. Needs Rust and python3 (3.11 or later). Ends with `N
# passed, 0 failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
venv=$("$here/../environment.sh" ray python3 'ray==2.60.0' 'moto[server,s3]==5.2.5')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
WHEEL=$("$here/../wheel.sh" "$work")
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$work/site" "$WHEEL"
export RAY_USAGE_STATS_ENABLED=0
# Ray listens on its host's address. In a separate network namespace this is the loopback address, which can't be reached from outside.
alone=(unshare --net)
[ "$(id -u)" = 0 ] || alone=(unshare --map-root-user --net)
export HOME=$work
# Workers inherit the path of the package.
PYTHONPATH=$work/site "${alone[@]}" "$venv/bin/python" "$here/run.py" --work "$work" "$@"
