#!/usr/bin/env bash
# A seed is one run: alone, traced, after other seeds, in another environment.
#
#   repeats_test.sh SIMULATION
set -euo pipefail

# Without fixed addresses only runs of one process repeat, which `simulation` itself
# checks for every fiftieth seed.
if "$1" --seed=1 2>&1 >/dev/null | grep -q "addresses cannot be fixed"; then
  echo "skipped: this machine does not let a program fix its addresses"
  exit 77
fi

digest() { "$@" | grep -o 'digest of the last [0-9a-f]*'; }

wrong=0
for seed in 7 47 140; do
  alone="$(digest "$1" "--seed=$seed")"
  traced="$(digest "$1" "--seed=$seed" --trace)"
  behind="$(digest "$1" "--first=$((seed - 2))" --seeds=3)"
  elsewhere="$(digest env -i SOMETHING_LONG="$(head -c 5000 /dev/zero | tr '\0' x)" "$1" "--seed=$seed")"
  for other in "$traced" "$behind" "$elsewhere"; do
    [ "$other" = "$alone" ] && continue
    echo "seed $seed: $alone, and then $other" >&2
    wrong=1
  done
done
exit "$wrong"
