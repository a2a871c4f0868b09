#!/usr/bin/env bash
# The patches that scripts/prove-antipatterns.sh works with must apply to the
# product as it is: code that moves on takes them along. Each test of an
# anti-pattern has one at least, and each patch has a test.
#
#   mutations_apply_test.sh ROOT
set -euo pipefail
cd "$1"
tests=tests/antipatterns

applies() {
  # Not a repository that this folder happens to lie in: git would skip the patch.
  if [ -e .git ] && git rev-parse --git-dir >/dev/null 2>&1; then
    git apply --check "$1"
  else
    patch -p1 --fuzz=0 --dry-run -s <"$1"
  fi
}

wrong=0
fail() {
  echo "$*" >&2
  wrong=1
}

for patch in "$tests"/mutations/*.patch; do
  applies "$patch" || fail "$patch does not apply: make it anew"
  [[ "$(head -n 1 "$patch")" =~ ^[A-Za-z].{0,75}$ ]] ||
    fail "$patch: the first line says what is taken out, in at most 76 characters"
  number="$(basename "$patch" | cut -c 1-2)"
  compgen -G "$tests/${number}_*_test.cc" >/dev/null || fail "$patch is of no test"
done
for test in "$tests"/[0-9][0-9]_*_test.cc; do
  number="$(basename "$test" | cut -c 1-2)"
  compgen -G "$tests/mutations/${number}_*.patch" >/dev/null || fail "$test has no patch"
done
exit "$wrong"
