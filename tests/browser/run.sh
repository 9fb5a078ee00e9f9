#!/usr/bin/env bash
# Tests the pages and pictures of `protosplit tree` in Chromium; see run.mjs. Writes screenshots to .browser/shots.
# Needs node, npm and chromium for setup.sh, and cargo.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup.sh"
cd "$here/../.."
protosplit=${PROTOSPLIT:-}
if [ -z "$protosplit" ]; then
  cargo build --quiet --release --bin protosplit
  target=$(cargo metadata --no-deps --format-version 1 | node -p 'JSON.parse(require("fs").readFileSync(0)).target_directory')
  protosplit=$target/release/protosplit
fi
exec node "$here/run.mjs" "$protosplit" "$@"
