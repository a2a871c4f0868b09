#!/usr/bin/env bash
# Proves that the simulation can fail. Takes one protection after the other out
# of a scratch copy of the product (tests/simulation/mutations), builds it, and
# tells how many of 300 seeds break a promise. Nothing here is changed, and
# nothing is left behind.
#
#   scripts/prove-simulation.sh                  all of them; ten minutes on two cores
#   scripts/prove-simulation.sh NAME...          only those patches
#
# Exit status: 0 if every one was caught, 1 if one was not, 2 for a bad argument.
set -euo pipefail
cd "$(dirname "$0")/.."

patches=()
for argument in "$@"; do
  case "$argument" in
    -h | --help)
      sed -n '2,10s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      [ -e "tests/simulation/mutations/$argument.patch" ] || {
        echo "there is no patch $argument" >&2
        exit 2
      }
      patches+=("tests/simulation/mutations/$argument.patch")
      ;;
  esac
done
[ "${#patches[@]}" -gt 0 ] || patches=(tests/simulation/mutations/*.patch)

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$scratch"
cd "$scratch"
cmake --preset release >configure.log 2>&1 || {
  cat configure.log >&2
  exit 1
}

missed=0
for patch in "${patches[@]}"; do
  patch -p1 --fuzz=0 -s <"$patch"
  cmake --build --preset release --target simulation >build.log 2>&1 || {
    tail -n 30 build.log >&2
    exit 1
  }
  timeout 600 build/release/bin/simulation --seeds=300 >run.log || true
  caught="$(sed -n 's/^\([0-9]*\) of 300 seeds failed.*/\1/p' run.log)"
  first="$(sed -n 's/^seed \([0-9]*\) broke.*/\1/p;T;q' run.log)"
  printf '%-32s %3d of 300 seeds, the first %s\n' "$(basename "$patch" .patch)" "${caught:-0}" "${first:-none}"
  [ "${caught:-0}" -gt 0 ] || missed=1
  patch -R -p1 --fuzz=0 -s <"$patch"
done
exit "$missed"
