#!/usr/bin/env bash
# The main job in small: train three iterations of G1, then continue: smoke.sh MAKE
set -euo pipefail
make=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$make" --no-print-directory train ARGS="--iterations 3 --run-dir $folder/run"
"$make" --no-print-directory train ARGS="--iterations 5 --run-dir $folder/run"
tail -n 1 "$folder/run/sessions.jsonl" | grep -q '"first_iteration": 4'
test "$(wc -l < "$folder/run/metrics.jsonl")" = 5
echo "smoke run: 3 iterations, then 2 more after a resume"
