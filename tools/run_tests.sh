#!/usr/bin/env bash
# All tests: those with Spark or a broker by two workers, file by file; the pure ones beside them, in the background.
# What they wait for is mostly time-outs and JVMs, but more of them at a time make each other late.
#
#   tools/run_tests.sh [pytest options]      exit status 0: all passed
set -euo pipefail
cd "$(dirname "$0")/.."

pytest=(.venv/bin/python -P -m pytest)
pure=$(mktemp)
trap 'kill "$beside" 2>/dev/null || true; wait 2>/dev/null || true; rm -f "$pure"' EXIT

# They wait for every other process, so each may take ten times as long as it takes alone.
nice timeout --foreground -k 10 4800 "${pytest[@]}" -o timeout=1200 tests/unit "$@" >"$pure" 2>&1 </dev/null &
beside=$!

# In this order, so that the short files come last and the workers end together.
status=0
"${pytest[@]}" -n 2 --dist loadfile --no-loadscope-reorder tests/e2e tests/shell "$@" || status=$?
statuses=("$status") status=0
wait "$beside" || status=$?
statuses+=("$status")
echo "== the pure ones:"
cat "$pure"

none=5 # pytest's status when the options have chosen no test
[ "${statuses[*]}" != "$none $none" ] || exit $none
for status in "${statuses[@]}"; do
  [ "$status" = 0 ] || [ "$status" = $none ] || exit "$status"
done
