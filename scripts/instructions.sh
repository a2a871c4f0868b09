#!/usr/bin/env bash
# Counts the instructions of the inner loops (bench/micro) under callgrind and
# compares them with bench/baseline.json: unlike times, they are the same on a
# busy machine. Fails when one is off by more than 5 %.
#
#   scripts/instructions.sh            build, count, compare
#   scripts/instructions.sh --update   and write a new baseline
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/configure.sh

case "${1:-}" in
  "" | --update) ;;
  -h | --help)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  *)
    echo "unknown argument: $1 (see --help)" >&2
    exit 2
    ;;
esac

scripts/install-dependencies.sh bench
configure bench
cmake --build --preset bench --target instruction_loops
/usr/bin/python3 bench/micro/instructions.py "$@"
