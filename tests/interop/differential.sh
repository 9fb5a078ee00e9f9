#!/usr/bin/env bash
# Merges random files with our code and with TensorFlow's Merger, and prints each kind of difference: see
# crates/testkit/examples/differential.rs. The first argument is the number of files (default: 100,000), the second the seed
# (default: 1). Fails if a difference isn't explained in that example. Has the requirements of setup.sh.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup.sh"
cd "$here/../.."
exec cargo run --quiet --release -p proto-splitter-testkit --example differential .interop/tf_read "${1:-100000}" "${2:-1}"
