#!/usr/bin/env bash
# Builds every fuzz target into $OUT, with the seeds that the target plants itself and the committed seeds. OSS-Fuzz sets $SRC and $OUT.
set -euo pipefail
cd "$SRC/proto-splitter/fuzz"

cargo fuzz build --release --debug-assertions
built=$(echo target/*/release)
for target in fuzz_targets/*.rs; do
  name=$(basename "$target" .rs)
  cp "$built/$name" "$OUT/$name"
  # A target plants its seeds before it reads any input.
  mkdir -p "corpus/$name"
  "$OUT/$name" -runs=0 "corpus/$name"
  [ ! -d "seeds/$name" ] || cp "seeds/$name"/* "corpus/$name"
  (cd "corpus/$name" && [ -z "$(ls -A)" ] || zip --quiet --recurse-paths "$OUT/${name}_seed_corpus.zip" .)
done
