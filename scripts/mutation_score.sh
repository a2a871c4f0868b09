#!/usr/bin/env bash
# Measures the share of small changes to the product that the tests detect. Draws a sample of
# the mutants that a tool makes (universalmutator, with the rules in tests/mutation_score/rules),
# builds each beside a scratch copy of the product, and runs the suites that reach it.
# The tree stays unchanged; the scratch copy stays in build/mutation_score.
# docs/testing.md describes the result.
#
#   scripts/mutation_score.sh                        60 mutants: half an hour on two cores
#   scripts/mutation_score.sh --sample 100 --seed 7  another and larger sample
#   scripts/mutation_score.sh --group batcher        only one part of the product
#   scripts/mutation_score.sh --folder core          only files there
#   scripts/mutation_score.sh --survivors-of f.json  those of a run with --json f.json, again
#   scripts/mutation_score.sh --list                 lists the sample
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
# Without its dependencies: its mutator imports only Python's standard library.
if [ ! -e "$tool/installed" ]; then
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
    --upgrade --target "$tool" "universalmutator==$version"
  touch "$tool/installed"
fi
PYTHONPATH="$tool${PYTHONPATH:+:$PYTHONPATH}" exec python3 -m tests.mutation_score "$@"
