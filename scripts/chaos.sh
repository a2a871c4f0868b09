#!/usr/bin/env bash
# Injects every known fault into a whole system on this machine and checks that each
# promise was kept. First installs and builds its dependencies; starts every process
# itself and stops it afterwards.
#
#   scripts/chaos.sh --quick        ten minutes at most (default)
#   scripts/chaos.sh --nightly      about an hour, most of it faults
#   scripts/chaos.sh --profile=relaxed  another system, with other promises (default: default)
#   scripts/chaos.sh --seed=N       determines the calls and the faults
#   scripts/chaos.sh --json=FILE    write the report there
#   scripts/chaos.sh --no-build ... with the existing build
#   scripts/chaos.sh --no-previous  without earlier builds of the daemon, which are
#                                   built once and take some minutes
#   scripts/chaos.sh --help         every option
set -euo pipefail
cd "$(dirname "$0")/.."

build=1
previous=1
arguments=()
for argument in "$@"; do
  case "$argument" in
    --no-build) build=0 ;;
    --no-previous)
      previous=0
      arguments+=("$argument")
      ;;
    --smoke)
      # It has none.
      previous=0
      arguments+=("$argument")
      ;;
    -h | --help)
      build=0
      arguments+=(--help)
      ;;
    *) arguments+=("$argument") ;;
  esac
done

if [ "$build" = 1 ]; then
  echo "== packages and build (release)"
  scripts/install-dependencies.sh test
  log="$(mktemp)"
  cmake --preset release -D IDEMPOTENCY_BUILD_TESTS=ON >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
  }
  rm -f "$log"
  cmake --build --preset release --target idempotencyd chaos_proxy chaos_bank chaos_clients
  [ "$previous" = 0 ] || tests/chaos/build_previous.sh || echo "== continuing without earlier builds"
fi
exec /usr/bin/python3 -m tests.chaos.campaign "${arguments[@]}"
