#!/usr/bin/env bash
# The patches that scripts/prove-simulation.sh works with must apply to the
# product as it is, and docs/testing.md must tell of each.
#
#   mutations_apply_test.sh ROOT
set -euo pipefail
cd "$1"

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

for patch in tests/simulation/mutations/*.patch; do
  applies "$patch" || fail "$patch does not apply: make it anew"
  [[ "$(head -n 1 "$patch")" =~ ^[A-Za-z].{0,75}$ ]] ||
    fail "$patch: the first line says what is taken out, in at most 76 characters"
  grep -q "$(basename "$patch" .patch)" docs/testing.md || fail "docs/testing.md: nothing of $patch"
done
exit "$wrong"
