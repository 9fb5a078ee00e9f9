# Builds the fuzz targets with libFuzzer's instrumentation, for the scripts that source this file from its folder, with the Cargo profile
# `profile`, or else `release`. Sets `dir`, `target` and `built`, the folder of the binaries. Needs Rust (any channel) and a C++ compiler
# for libFuzzer. LLVM, which is part of every rustc, adds the instrumentation.
command -v c++ >/dev/null || { echo "$0: nothing was done: libFuzzer needs a C++ compiler (c++)" >&2; exit 0; }
target=$(rustc -vV | sed -n 's/^host: //p')
# Without --target, build scripts and macros would be instrumented as well.
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
dir=${CARGO_TARGET_DIR:-../target}/fuzz
profile=${profile:-release}
cargo build --quiet --profile "$profile" --bins --target "$target" --target-dir "$dir"
built=$dir/$target/$profile
