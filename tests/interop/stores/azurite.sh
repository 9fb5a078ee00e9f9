#!/usr/bin/env bash
# Checks the command against azurite, an emulator of Azure's interface, on the loopback address and with its well-known account, whose
# key is public. Azurite is installed from npm into target/azurite. Not part of CI, since azurite takes 365 MB. See azurite.py.
# Needs node, npm and python3.
#
# If PROTOSPLIT is set, it is the path of the command to check.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
cd "$root"

azurite=${AZURITE:-$root/target/azurite}
if [ ! -x "$azurite/node_modules/.bin/azurite-blob" ]; then
  mkdir -p "$azurite"
  npm install --silent --no-audit --no-fund --prefix "$azurite" azurite@3.37.0
fi
if [ -z "${PROTOSPLIT:-}" ]; then
  cargo build --quiet --release --bin protosplit
  PROTOSPLIT=${CARGO_TARGET_DIR:-$root/target}/release/protosplit
fi
exec python3 "$here/azurite.py" --protosplit "$PROTOSPLIT" --azurite "$azurite/node_modules/.bin/azurite-blob" "$@"
