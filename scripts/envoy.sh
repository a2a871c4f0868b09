#!/usr/bin/env bash
# Tests with real Envoys that take longer than those of scripts/test.sh: services of four languages
# and SpiceDB from their registries, and 10,000 calls with faults between all parts
# (docs/testing.md).
#
#   scripts/envoy.sh                  everything, on two versions of Envoy: half an hour the first
#                                     time, most of it for building SpiceDB (needs Go, Java, Maven,
#                                     Node)
#   scripts/envoy.sh --quick          without the registries, and 2,000 calls: under two minutes
#   scripts/envoy.sh --seed=N         another run of the faults
#   scripts/envoy.sh --preset=PRESET  a build other than asan
#   scripts/envoy.sh --no-build       with the existing build of that preset
set -euo pipefail
cd "$(dirname "$0")/.."

preset=asan
build=1
quick=0
seed=1
for argument in "$@"; do
  case "$argument" in
    --preset=?*) preset="${argument#*=}" ;;
    --no-build) build=0 ;;
    --quick) quick=1 ;;
    --seed=?*) seed="${argument#*=}" ;;
    -h | --help)
      sed -n '2,14s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "unknown argument: $argument (see --help)" >&2
      exit 2
      ;;
  esac
done

if [ "$build" = 1 ]; then
  scripts/install-dependencies.sh test
  cmake --preset "$preset"
  cmake --build --preset "$preset" --target idempotencyd idempotencyctl
fi

export IDEMPOTENCY_BUILD="$PWD/build/$preset" PYTHONDONTWRITEBYTECODE=1
# Debian's Python, which has gRPC.
python=(/usr/bin/python3 tests/support/subreaper.py /usr/bin/python3)

if [ "$quick" = 1 ]; then
  "${python[@]}" -m tests.envoy.chaos --calls=2000 "--seed=$seed"
  exit
fi
for version in 1.37.0 1.40.0; do
  echo "== Envoy $version: what callers get"
  IDEMPOTENCY_ENVOY="$version" "${python[@]}" -m unittest tests.envoy.guard_test \
    tests.envoy.http_test tests.envoy.antipatterns_test tests.envoy.claims_test
  echo "== Envoy $version: faults between all parts"
  "${python[@]}" -m tests.envoy.chaos --calls=10000 "--seed=$seed" "--envoy=$version"
done
echo "== services and clients of four languages, SpiceDB"
"${python[@]}" -m unittest -v tests.envoy.services_test
