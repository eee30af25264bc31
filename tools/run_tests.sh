#!/usr/bin/env bash
# All tests, in five runs: first those with Spark, then those with a broker, two beside each other; the pure ones beside all.
# What they wait for is mostly time-outs and JVMs, but more of them at a time make each other late.
# The first part of those with Spark is seen as it runs; what the others print follows when it has ended.
#
#   tools/run_tests.sh [pytest options]      exit status 0: all passed
set -euo pipefail
cd "$(dirname "$0")/.."

pytest=(.venv/bin/python -P -m pytest)
folder=$(mktemp -d)
names=() pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT

beside() { # beside NAME NICENESS ARGUMENT...: in the background, its output kept
  local name=$1 niceness=$2
  shift 2
  # The mark tells the leftover test whose sockets those are.
  COHORT_TEST_RUN=$name nice -n "$niceness" timeout --foreground -k 10 3000 "${pytest[@]}" "$@" \
    >"$folder/$name" 2>&1 </dev/null &
  names+=("$name") pids+=($!)
}

# Every other file, so that the parts take about as long.
halves() { # halves FILE... : into the arrays first and second
  first=() second=()
  local file
  for file in "$@"; do
    if [ ${#first[@]} -gt ${#second[@]} ]; then second+=("$file"); else first+=("$file"); fi
  done
}

beside unit 10 tests/unit "$@"
halves tests/e2e/test_*.py
beside spark-2 0 "${second[@]}" "$@"
status=0
"${pytest[@]}" "${first[@]}" "$@" || status=$?
statuses=("$status")
halves tests/shell/*/test_*.py
beside shell 0 "${first[@]}" "$@"
wait "${pids[1]}" || true # never more than two; its status is asked for again below
beside shell-2 0 "${second[@]}" "$@"
for number in "${!names[@]}"; do
  status=0
  wait "${pids[$number]}" || status=$?
  statuses+=("$status")
  echo "== ${names[$number]}:"
  cat "$folder/${names[$number]}"
done

none=5 # pytest's status when the options have chosen no test of a part
all_none=$none
for status in "${statuses[@]}"; do
  [ "$status" = 0 ] || [ "$status" = $none ] || exit "$status"
  [ "$status" = $none ] || all_none=0
done
exit $all_none
