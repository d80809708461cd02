#!/usr/bin/env bash
# The main job in small: train three iterations of G1, then continue: smoke.sh MAKE
set -euo pipefail
make=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$make" --no-print-directory train ARGS="--iterations 3 --run-dir $folder/run"
"$make" --no-print-directory train ARGS="--iterations 5 --run-dir $folder/run" | tee "$folder/second"
grep -q "continues after iteration 3" "$folder/second"
test "$(wc -l < "$folder/run/metrics.jsonl")" = 5
echo "smoke run: 3 iterations, then 2 more after a resume"
