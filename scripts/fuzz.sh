#!/usr/bin/env bash
# Runs libFuzzer to find inputs that violate an invariant (docs/testing.md).
#
#   scripts/fuzz.sh [--smoke] [TARGET...]     replays the kept inputs, then 10 s for each target,
#                                             with the same seed each time
#   scripts/fuzz.sh --nightly [TARGET...]     5 minutes for each
#   scripts/fuzz.sh --seconds=N [TARGET...]
#
# Exit status: 0 nothing was found; 1 a finding, whose input is in
# build/fuzz/findings/TARGET/; 2 the run failed. The inputs that the fuzzers
# found are kept in build/fuzz/corpus/ for the next run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/configure.sh

seconds=10
# libFuzzer's seed: 0 draws one. A smoke run checks a change, so its seed is fixed; the
# longer runs draw one to find new inputs.
seed=1
targets=()
for argument in "$@"; do
  case "$argument" in
    --smoke) seconds=10 ;;
    --nightly)
      seconds=300
      seed=0
      ;;
    --seconds=*)
      seconds="${argument#*=}"
      seed=0
      ;;
    -h | --help)
      sed -n '2,11s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    -*)
      echo "unknown argument: $argument (see --help)" >&2
      exit 2
      ;;
    *) targets+=("$argument") ;;
  esac
done
if ! [[ "$seconds" =~ ^[1-9][0-9]*$ ]]; then
  echo "--seconds must be a whole number, at least 1" >&2
  exit 2
fi

seeds=tests/fuzz/corpus
build=build/fuzz
if [ "${#targets[@]}" = 0 ]; then
  mapfile -t targets < <(find "$seeds" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
fi
for target in "${targets[@]}"; do
  if ! [ -f "tests/fuzz/${target}_target.cc" ]; then
    echo "no target $target; see tests/fuzz/" >&2
    exit 2
  fi
done

scripts/install-dependencies.sh fuzz || exit 2
configure fuzz || exit 2
cmake --build "$build" --target "${targets[@]/#/fuzz_}" || exit 2

# Debian's libraries are not instrumented: they keep what they allocate once, and their reads of
# freed memory are found only if its bytes are changed.
export LSAN_OPTIONS="print_suppressions=0:suppressions='$PWD/cmake/library_leaks.txt'"
export ASAN_OPTIONS="abort_on_error=1:detect_stack_use_after_return=0:max_free_fill_size=4096"
export UBSAN_OPTIONS="print_stacktrace=1"
# One target keeps a database there.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi

# fuzz_one TARGET: false if there is a finding.
fuzz_one() {
  local target="$1" status=0
  local findings="$build/findings/$target" learned="$build/corpus/$target"
  local log="$findings/log"
  mkdir -p "$findings" "$learned"
  # The limits: memory, one input, all of them, and the whole run.
  timeout -k 10 "$((seconds + 180))" "$build/bin/fuzz_$target" \
    -seed="$seed" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=25 -max_len=4096 -detect_leaks=0 \
    -print_final_stats=1 -artifact_prefix="$findings/" "$learned" "$seeds/$target" \
    >"$log" 2>&1 || status=$?
  local coverage speed
  coverage="$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -n 1)"
  speed="$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")"
  printf '%-18s %8s executions/s  %s%s\n' "$target" "${speed:-?}" "${coverage:-no coverage}" \
    "$([ "$status" = 0 ] || echo "  FINDING (status $status)")"
  [ "$status" = 0 ] && return
  grep -m 4 -e 'this must be so' -e 'ERROR:' -e 'runtime error' -e 'Test unit written' "$log" || true
  return 1
}

echo "== the kept inputs, then $seconds s each"
failed=()
for target in "${targets[@]}"; do
  fuzz_one "$target" || failed+=("$target")
done
if [ "${#failed[@]}" != 0 ]; then
  echo "findings in: ${failed[*]} (inputs and logs in $build/findings/)" >&2
  exit 1
fi
echo "nothing found"
