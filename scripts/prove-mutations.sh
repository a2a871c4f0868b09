#!/usr/bin/env bash
# Proves that the tests can fail. Applies one bug after the other (the patches in
# tests/mutations/patches) to a scratch copy of the product, builds it, and expects
# that the simulation or a test fails. The tree stays unchanged, and no files are
# left behind. docs/testing.md lists which test caught which bug.
#
#   scripts/prove-mutations.sh                   all of them: an hour or so on two cores
#   scripts/prove-mutations.sh --quick           some of every kind
#   scripts/prove-mutations.sh NAME...           only these
#   scripts/prove-mutations.sh --list            lists the patches
#   scripts/prove-mutations.sh --markdown FILE   writes the rows into the table of a page
#   scripts/prove-mutations.sh --help            every option
set -euo pipefail
cd "$(dirname "$0")/.."

case " $* " in
  *" --list "* | *" --help "* | *" -h "*) ;;
  *) scripts/install-dependencies.sh test ;;
esac
exec /usr/bin/python3 -m tests.mutations "$@"
