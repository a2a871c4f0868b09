#!/usr/bin/env bash
# Builds the Debian packages of idempotencyd, of idempotencyctl and of the libraries, in
# build/package/packages, each with a bill of materials (scripts/sbom.sh).
#
#   scripts/packages.sh                   builds them (a release build: minutes)
#   scripts/packages.sh --test            and installs, upgrades, removes and purges them in a
#                                         clean Debian, also under systemd, and follows
#                                         docs/production.md there (root; a mirror of
#                                         Debian; 3 GB; ten minutes)
#   scripts/packages.sh --build=FOLDER    with another build folder of the preset `package`
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/configure.sh

usage() { sed -n '2,10s/^# \{0,1\}//p' "$0"; }

build=build/package
test=false
for argument in "$@"; do
  case "$argument" in
    --test) test=true ;;
    --build=?*) build=${argument#--build=} ;;
    -h | --help)
      usage
      exit
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
done

scripts/install-dependencies.sh package
configure package -B "$build"
cmake --build "$build"
rm -rf "$build/packages"
cpack --config "$build/CPackConfig.cmake" -B "$build/packages" >/dev/null
rm -rf "$build/packages/_CPack_Packages"
scripts/sbom.sh "$build"/packages/*.deb >/dev/null
ls -l "$build"/packages/*

if $test; then
  export IDEMPOTENCY_BUILD="$PWD/$build" PYTHONDONTWRITEBYTECODE=1
  case "$build" in /*) IDEMPOTENCY_BUILD=$build ;; esac
  for suite in unit_test contents_test sbom_test system_calls_test installation_test boot_test \
      production_page_test production_test; do
    python3 tests/support/subreaper.py python3 -m unittest "tests.packages.$suite"
  done
fi
