#!/usr/bin/env bash
# Builds the simulation as it is released, and runs it (docs/testing.md).
#
#   scripts/simulate.sh                2,000 seeds of 200 steps: under a minute on one core
#   scripts/simulate.sh --nightly      100,000 seeds
#   scripts/simulate.sh --seed=N --trace
#
# The arguments are passed to the program. Exit status: 0 if every promise was kept.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/configure.sh

case "${1:-}" in
  -h | --help)
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

scripts/install-dependencies.sh test
configure release -D IDEMPOTENCY_BUILD_TESTS=ON
cmake --build --preset release --target simulation simulation_thread_locals_test
build/release/bin/simulation "$@"
if [ "$#" = 0 ]; then
  build/release/bin/simulation_thread_locals_test --gtest_brief=1
  # 77: on this machine a seed does not repeat exactly in another process.
  tests/simulation/repeats_test.sh build/release/bin/simulation || [ "$?" = 77 ]
fi
