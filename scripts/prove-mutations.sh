#!/usr/bin/env bash
# Proves that the tests can fail. Plants one bug after the other (tests/mutations/bugs) in a
# scratch copy of the product, builds it, and expects that the simulation or a test fails. The
# tree stays unchanged, and no files are left behind.
#
#   scripts/prove-mutations.sh                   all of them: half an hour on two cores
#   scripts/prove-mutations.sh --quick           some of every kind
#   scripts/prove-mutations.sh NAME...           only these
#   scripts/prove-mutations.sh --list            lists the bugs
#   scripts/prove-mutations.sh --report FILE     writes a table of what caught each
#   scripts/prove-mutations.sh --help            every option
set -euo pipefail
cd "$(dirname "$0")/.."

case " $* " in
  *" --list "* | *" --help "* | *" -h "*) ;;
  *) scripts/install-dependencies.sh test ;;
esac
exec /usr/bin/python3 -m tests.mutations "$@"
