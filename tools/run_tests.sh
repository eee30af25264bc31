#!/usr/bin/env bash
# All tests: those with Spark one after the other in the foreground, the others beside them at low priority.
# What those with Spark wait for is mostly time-outs and JVMs; one after the other, all of it takes half as long again.
#
#   tools/run_tests.sh [pytest options]      exit status 0: all passed
set -euo pipefail
cd "$(dirname "$0")/.."

pytest=(.venv/bin/python -P -m pytest)
beside=$(mktemp)
# The mark tells the leftover test whose sockets those are.
COHORT_TEST_RUN=beside nice -n 10 timeout --foreground -k 10 3000 "${pytest[@]}" tests/unit tests/shell "$@" >"$beside" 2>&1 </dev/null &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; rm -f "$beside"' EXIT

with_spark=0
"${pytest[@]}" tests/e2e "$@" || with_spark=$?
echo "tests/unit and tests/shell:"
without=0
wait "$pid" || without=$?
cat "$beside"

none=5 # pytest's status when the options have chosen no test of a part
[ "$with_spark" != $none ] || [ "$without" != $none ] || exit $none
for status in "$with_spark" "$without"; do
	[ "$status" = 0 ] || [ "$status" = $none ] || exit "$status"
done
