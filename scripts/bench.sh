#!/usr/bin/env bash
# Measures the service against its theoretical best on this machine. First installs
# and builds its dependencies; starts every process itself and stops it afterwards.
#
#   scripts/bench.sh --quick          a rough result, in under 4 minutes
#   scripts/bench.sh                  everything; an hour, and 30 GB of disk
#   scripts/bench.sh --json=FILE      all numbers, for `python3 -m bench.comparison.report`
#   scripts/bench.sh --only=KEY,...   only these measures
#   scripts/bench.sh --peers          beside alternatives (needs Go, npm, pip): docs/alternatives.md
#   scripts/bench.sh --envoy          a call directly, through Envoy, and guarded there
#   scripts/bench.sh --minimal        a guarded call beside a minimal program that does the same work
#   scripts/bench.sh --capacity       the figures of the plan in docs/scaling.md
#   scripts/bench.sh --sync_ms=2      only what a guard adds to a handler's one commit, on disks
#                                     whose syncs take so much longer; two minutes
#   scripts/bench.sh --no-build ...   with the existing build
#   scripts/bench.sh --help           every measure and option
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/configure.sh

build=1
module=bench.comparison
targets=(idempotencyctl idempotencyd idempotency_bench charges_server store_load)
arguments=()
for argument in "$@"; do
  case "$argument" in
    --no-build) build=0 ;;
    --peers) module=bench.peers ;;
    --envoy)
      module=bench.envoy
      targets=(idempotencyctl idempotencyd idempotency_bench charges_server)
      ;;
    --minimal)
      module=bench.minimal
      targets=(idempotencyd idempotency_bench charges_server minimal_server minimal_daemon)
      ;;
    --capacity) module=bench.capacity.measure ;;
    --sync_ms=*)
      module=bench.exactly_once
      targets=(idempotencyd exactly_once)
      arguments+=("$argument")
      ;;
    -h | --help)
      sed -n '2,16s/^# \{0,1\}//p' "$0"
      echo
      build=0
      arguments+=(--help)
      ;;
    *) arguments+=("$argument") ;;
  esac
done

if [ "$build" = 1 ]; then
  echo "== packages and build (release)"
  scripts/install-dependencies.sh bench
  if [ "$module" = bench.envoy ]; then scripts/install-dependencies.sh envoy; fi
  configure bench
  cmake --build --preset bench --target "${targets[@]}"
fi
exec /usr/bin/python3 -m "$module" "${arguments[@]}"
