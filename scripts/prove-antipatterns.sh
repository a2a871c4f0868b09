#!/usr/bin/env bash
# Proves that the tests of the anti-patterns can fail. Takes one protection after
# the other out of a scratch copy of the product (the patches in
# tests/antipatterns/mutations), builds it, and expects that a test of that
# anti-pattern goes red. Nothing here is changed, and nothing is left behind.
#
#   scripts/prove-antipatterns.sh          all of them; a quarter of an hour on two cores
#   scripts/prove-antipatterns.sh 02 07    only those of these anti-patterns
#
# Exit status: 0 if every one was caught, 1 if one was not, 2 for a bad argument.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,10s/^# \{0,1\}//p' "$0"; }

die() {
  echo "error: $*" >&2
  exit 1
}

tests=tests/antipatterns
# In seconds. A first build without a compiler cache takes the longest.
build_limit=1800
test_limit=300

numbers=()
for argument in "$@"; do
  case "$argument" in
    -h | --help)
      usage
      exit 0
      ;;
    [0-9] | [0-9][0-9])
      number="$(printf '%02d' "$((10#$argument))")"
      compgen -G "$tests/${number}_*_test.cc" >/dev/null || {
        echo "there is no test of anti-pattern $number" >&2
        exit 2
      }
      numbers+=("$number")
      ;;
    *)
      echo "unknown argument: $argument (see --help)" >&2
      exit 2
      ;;
  esac
done
if [ "${#numbers[@]}" = 0 ]; then
  for file in "$tests"/[0-9][0-9]_*_test.cc; do numbers+=("$(basename "$file" | cut -c 1-2)"); done
fi

scratch=""
job=""

# A test that was cut off leaves its idempotencyd behind. Known by its binary,
# which nobody else runs.
end_daemons() {
  local exe
  for exe in /proc/[0-9]*/exe; do
    if [[ "$(readlink "$exe" 2>/dev/null)" == "$scratch/build/bin/"* ]]; then
      kill -s KILL "$(basename "$(dirname "$exe")")" 2>/dev/null || true
    fi
  done
}

cleanup() {
  local status=$?
  trap - EXIT
  trap '' INT TERM
  set +e
  if [ -n "$job" ]; then kill -s TERM "$job" 2>/dev/null && wait "$job"; fi
  if [ -n "$scratch" ]; then
    end_daemons
    rm -rf "$scratch"
  fi
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# bounded SECONDS LOG COMMAND...: in the background and waited for, so that Ctrl-C
# is heard at once.
bounded() {
  local limit="$1" log="$2" status=0
  shift 2
  timeout --kill-after=20 "$limit" nice "$@" >"$log" 2>&1 &
  job=$!
  wait "$job" || status=$?
  job=""
  return "$status"
}

build() {
  bounded "$build_limit" "$scratch/build.log" \
    ninja -C "$scratch/build" antipatterns_test idempotencyd
}

# The suites of one anti-pattern's test, as a filter.
filter_of() {
  sed -n 's/^class \([A-Za-z]*\) : public AntiPattern .*/*\/\1.*/p' "$tests/$1"_*_test.cc |
    paste -sd:
}

# run_tests FILTER: what was printed is in test.log.
run_tests() {
  local status=0
  # A test that is cut off does not tidy up after itself.
  mkdir -p "$scratch/tmp"
  bounded "$test_limit" "$scratch/test.log" env "TMPDIR=$scratch/tmp" \
    "$scratch/build/bin/antipatterns_test" "--gtest_filter=$1" || status=$?
  end_daemons
  return "$status"
}

# The tests that said that they failed, each with the APIs it failed in. Nothing
# for a binary that only crashed or hung: that is no proof.
caught_by() {
  sed -n 's|^\[  FAILED  \] BothApis/\([A-Za-z]*\.[A-Za-z]*\)/\([A-Za-z]*\).*|\1 \2|p' \
    "$scratch/test.log" | sort -u |
    awk '{ apis[$1] = apis[$1] == "" ? tolower($2) : "both APIs" }
         END { for (test in apis) printf "%s (%s)\n", test, apis[test] }' |
    sort | paste -sd, | sed 's/,/, /g'
}

row() { printf '| %-2s | %-76s | %-10s | %s\n' "$@"; }

prepare() {
  scripts/install-dependencies.sh test
  scratch="$(mktemp -d "${TMPDIR:-/tmp}/prove-antipatterns.XXXXXX")"
  tar --exclude=./build --exclude=./.git --exclude=./.cache -cf - . | tar -C "$scratch" -xf -
  bounded 120 "$scratch/build.log" cmake -S "$scratch" -B "$scratch/build" -G Ninja \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DIDEMPOTENCY_BUILD_EXAMPLES=OFF || {
    cat "$scratch/build.log" >&2
    die "the scratch copy cannot be configured"
  }
}

expect_green() {
  local number filters=()
  for number in "${numbers[@]}"; do
    compgen -G "$tests/mutations/${number}_*.patch" >/dev/null ||
      die "there is no patch for anti-pattern $number in $tests/mutations"
    filters+=("$(filter_of "$number")")
  done
  build || {
    tail -n 40 "$scratch/build.log" >&2
    die "the product does not build"
  }
  run_tests "$(
    IFS=:
    echo "${filters[*]}"
  )" || {
    tail -n 60 "$scratch/test.log" >&2
    die "not green with every protection in place, so red would prove nothing"
  }
}

# try NUMBER PATCH: true if it was caught.
try() {
  local number="$1" patch="$2" what verdict by=""
  what="$(head -n 1 "$patch")"
  if ! patch -d "$scratch" -p1 --fuzz=0 --no-backup-if-mismatch -s <"$patch" >"$scratch/build.log"; then
    verdict="NOT CAUGHT" by="(the patch does not apply)"
  elif ! build; then
    verdict="NOT CAUGHT" by="(it does not build: $(grep -m 1 -o 'error: .*' "$scratch/build.log" || true))"
  elif run_tests "$(filter_of "$number")"; then
    verdict="NOT CAUGHT" by="(all green)"
  else
    by="$(caught_by)"
    verdict="red"
    if [ -z "$by" ]; then verdict="NOT CAUGHT" by="(no test failed: it crashed or hung)"; fi
  fi
  # Whatever of it was applied: the files as they are here, touched, so that
  # they are built again.
  local file
  sed -n 's|^+++ b/||p' "$patch" | while read -r file; do
    cp "$file" "$scratch/$file"
    rm -f "$scratch/$file.rej"
  done
  row "$number" "$what" "$verdict" "$by"
  [ "$verdict" = red ]
}

started=$SECONDS
echo "== every protection in place"
prepare
expect_green
grep -E '^\[  PASSED  \]' "$scratch/test.log"

echo "== one protection taken out at a time"
row "#" "taken out" "result" "caught by"
row "--" "---" "---" "---"
survivors=0
total=0
for number in "${numbers[@]}"; do
  for patch in "$tests/mutations/${number}"_*.patch; do
    total=$((total + 1))
    try "$number" "$patch" || survivors=$((survivors + 1))
  done
done
echo "caught $((total - survivors)) of $total, in $((SECONDS - started)) s"
[ "$survivors" = 0 ]
