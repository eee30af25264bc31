#!/usr/bin/env bash
# All tests: those with Spark or a broker by three workers, file by file; the pure ones beside them, in the background.
# With Spark they need the CPU, without they wait for most of their time: tests/conftest.py mixes them, so that three
# workers keep two cores busy.  Last it says how busy the CPU was; where that is much less than all, look for sleep.
#
#   tools/run_tests.sh [pytest options]      exit status 0: all passed
set -euo pipefail
cd "$(dirname "$0")/.."

pytest=(.venv/bin/python -P -m pytest --durations=40 --durations-min=5)
pure=$(mktemp)
trap 'kill "$beside" 2>/dev/null || true; wait 2>/dev/null || true; rm -f "$pure"' EXIT

# Jiffies of all cores since boot, idle and in whole (proc(5)).
jiffies() { awk '/^cpu / { print $5 + $6, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9; exit }' /proc/stat; }
read -r idle all < <(jiffies)

# They wait for every other process, so each may take ten times as long as it takes alone.
nice timeout --foreground -k 10 4800 "${pytest[@]}" -o timeout=1200 tests/unit "$@" >"$pure" 2>&1 </dev/null &
beside=$!

status=0
"${pytest[@]}" -n 3 --dist loadfile --no-loadscope-reorder tests/e2e tests/shell "$@" || status=$?
statuses=("$status") status=0
wait "$beside" || status=$?
statuses+=("$status")
echo "== the pure ones:"
cat "$pure"
read -r idle_now all_now < <(jiffies)
echo "== the CPU was busy for $((100 - 100 * (idle_now - idle) / (all_now - all))) % of $SECONDS s"

none=5 # pytest's status when the options have chosen no test
[ "${statuses[*]}" != "$none $none" ] || exit $none
for status in "${statuses[@]}"; do
  [ "$status" = 0 ] || [ "$status" = $none ] || exit "$status"
done
