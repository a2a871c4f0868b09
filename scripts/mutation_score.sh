#!/usr/bin/env bash
# What share of small changes to the product do the tests notice? Draws some from all that
# a tool can make (universalmutator, with the rules in tests/mutation_score/rules), builds
# each beside a scratch copy of the product, and runs the suites that reach it.
# Nothing of the tree is changed; the scratch copy stays in build/mutation_score.
# docs/testing.md tells how to read it.
#
#   scripts/mutation_score.sh                        60 mutants: half an hour on two cores
#   scripts/mutation_score.sh --sample 100 --seed 7  others, and more of them
#   scripts/mutation_score.sh --group batcher        only one part of the product
#   scripts/mutation_score.sh --folder core          only files there
#   scripts/mutation_score.sh --survivors-of f.json  those of a run with --json f.json, again
#   scripts/mutation_score.sh --list                 what would be planted
#   scripts/mutation_score.sh --help                 every option
set -euo pipefail
cd "$(dirname "$0")/.."

version=1.14.1
tool="build/mutation_score/universalmutator-$version"

case " $* " in
  *" --help "* | *" -h "*) ;;
  *" --list "*) ;;
  *) scripts/install-dependencies.sh test ;;
esac
# Only what this needs of it: its mutator imports nothing but Python's own library.
if [ ! -e "$tool/installed" ]; then
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
    --upgrade --target "$tool" "universalmutator==$version"
  touch "$tool/installed"
fi
PYTHONPATH="$tool${PYTHONPATH:+:$PYTHONPATH}" exec python3 -m tests.mutation_score "$@"
