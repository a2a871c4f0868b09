#!/usr/bin/env bash
# Builds and runs every test. Installs what is missing first.
#
#   scripts/test.sh                  all tests, under AddressSanitizer and UBSan
#   scripts/test.sh --preset=tsan    the project's concurrent code, under ThreadSanitizer
#   scripts/test.sh --preset=dev     without sanitizers: the quickest to build
#   scripts/test.sh --label=unit     only the tests with that label
#   scripts/test.sh --only=REGEX     only the tests whose name matches
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/configure.sh

preset=asan
select=()
for argument in "$@"; do
  case "$argument" in
    --preset=*) preset="${argument#*=}" ;;
    --label=*) select+=(-L "${argument#*=}") ;;
    --only=*) select+=(-R "${argument#*=}") ;;
    -h | --help)
      sed -n '2,8s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "unknown argument: $argument (see --help)" >&2
      exit 2
      ;;
  esac
done

step() { printf '\n== %s\n' "$*"; }

step "packages"
scripts/install-dependencies.sh test
echo "all there"

# gRPC sends calls to a proxy of the environment, also those to this machine.
export no_proxy="127.0.0.1,localhost${no_proxy:+,$no_proxy}"
export NO_PROXY=$no_proxy

step "build ($preset)"
configure "$preset"
cmake --build --preset "$preset"

step "test ($preset)"
# Without the chaos campaign's smoke run, whose faults depend on the clock: run it with
# `ctest -L chaos`, and the campaign with scripts/chaos.sh.
ctest --preset "$preset" --no-tests=error --parallel "$(nproc)" --label-exclude chaos \
  "${select[@]}"
