#!/usr/bin/env bash
# Runs the checks that .ci/run leaves out, one after the other, each with a time limit: the image, the
# packages, coverage, planted bugs, the share of small changes that the tests detect, newer
# dependencies, faults of every profile, Envoys, fuzzers, and the long simulation. A stage that fails
# does not end the run.
#
#   scripts/nightly.sh              every stage: a night on two cores
#   scripts/nightly.sh STAGE...     only these
#   scripts/nightly.sh --list       the stages, with the limit and the command of each
#   scripts/nightly.sh --limit=N    at most N seconds for each stage
#
# Needs what the scripts need, such as root for the packages. A stage whose program is not installed is
# in the summary as not run. Logs and the summary are in build/nightly/. Exit status: 0 if every stage
# passed, 1 if one failed, took too long or was not run, 2 for a bad argument.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,15s/^# \{0,1\}//p' "$0"; }

readonly folder=build/nightly
readonly kill_after=60

# NAME|LIMIT IN MINUTES|PROGRAM THAT IT NEEDS|COMMAND
stages=(
  'image|60|docker|docker build --tag grpc-idempotency .'
  'packages|90||scripts/packages.sh --test'
  'coverage|90||scripts/coverage.sh'
  'planted-bugs|90||scripts/prove-mutations.sh'
  'mutation-score|90||scripts/mutation_score.sh'
  'debian-13|90||scripts/newer_dependencies.sh --suite=trixie'
  'debian-sid|90||scripts/newer_dependencies.sh --suite=sid'
  'chaos|120||scripts/chaos.sh --nightly'
  'chaos-relaxed|40||scripts/chaos.sh --quick --profile=relaxed'
  'chaos-redis|40||scripts/chaos.sh --quick --profile=redis'
  'chaos-redis-cluster|40||scripts/chaos.sh --quick --profile=redis-cluster'
  'chaos-single-row|40||scripts/chaos.sh --quick --profile=single-row'
  'envoy|90|mvn|scripts/envoy.sh'
  'fuzz|180||scripts/fuzz.sh --nightly'
  'simulation|90||scripts/simulate.sh --nightly'
)

limit_seconds=
chosen=()
list=false

field() { cut -d '|' -f "$2" <<<"$1"; }

parse_arguments() {
  local argument stage known
  for argument in "$@"; do
    case "$argument" in
      -h | --help)
        usage
        exit
        ;;
      --list) list=true ;;
      --limit=[1-9]*) limit_seconds=${argument#--limit=} ;;
      -*)
        echo "unknown argument: $argument (see --help)" >&2
        exit 2
        ;;
      *)
        known=false
        for stage in "${stages[@]}"; do
          [ "$(field "$stage" 1)" != "$argument" ] || known=true
        done
        $known || {
          echo "unknown stage: $argument (see --list)" >&2
          exit 2
        }
        chosen+=("$argument")
        ;;
    esac
  done
}

is_chosen() {
  [ "${#chosen[@]}" = 0 ] || [[ " ${chosen[*]} " == *" $1 "* ]]
}

# run STAGE: its result, in one line.
run() {
  local name limit needs status start
  name=$(field "$1" 1) needs=$(field "$1" 3)
  limit=${limit_seconds:-$(($(field "$1" 2) * 60))}
  if [ -n "$needs" ] && ! command -v "$needs" >/dev/null; then
    echo "not run: $needs is not installed"
    return
  fi
  read -ra command < <(field "$1" 4)
  start=$SECONDS
  status=0
  # Its processes end with it.
  timeout --kill-after="$kill_after" "$limit" python3 tests/support/subreaper.py "${command[@]}" \
    >"$folder/$name.log" 2>&1 </dev/null || status=$?
  case "$status" in
    0) echo "passed in $((SECONDS - start)) s" ;;
    124 | 137) echo "FAILED: not done within $limit s; $folder/$name.log" ;;
    *) echo "FAILED with status $status after $((SECONDS - start)) s; $folder/$name.log" ;;
  esac
}

main() {
  local stage name result all_passed=true
  parse_arguments "$@"
  if $list; then
    for stage in "${stages[@]}"; do
      printf '%-20s %4s min  %s\n' "$(field "$stage" 1)" "$(field "$stage" 2)" "$(field "$stage" 4)"
    done
    exit
  fi
  mkdir -p "$folder"
  git log -1 --format='commit %h of %cs' >"$folder/summary.txt"
  for stage in "${stages[@]}"; do
    name=$(field "$stage" 1)
    is_chosen "$name" || continue
    echo "== $name: $(field "$stage" 4)"
    result=$(run "$stage")
    [[ "$result" == passed* ]] || all_passed=false
    echo "$result"
    printf '%-20s %s\n' "$name" "$result" >>"$folder/summary.txt"
  done
  printf '\n'
  cat "$folder/summary.txt"
  $all_passed
}

main "$@"
