#!/usr/bin/env bash
# Formats, then checks that nothing changed; runs shellcheck, clang-tidy, and clang's
# thread-safety analysis with it. Any finding is an error.
#
#   scripts/lint.sh                   everything
#   scripts/lint.sh format            only the formatter (it also fixes files), and shellcheck
#   scripts/lint.sh tidy [FILE...]    only clang-tidy, on every file or on these
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/configure.sh
what="${1:-all}"
scripts/install-dependencies.sh lint

sources() { git ls-files '*.cc' '*.h'; }

if [ "$what" = all ] || [ "$what" = format ]; then
  echo "== format"
  before="$(sources | xargs sha256sum)"
  sources | xargs clang-format-14 -i
  if [ "$before" != "$(sources | xargs sha256sum)" ]; then
    git --no-pager diff --stat
    echo "the formatter changed files: review and commit them" >&2
    exit 1
  fi
  echo "== shell"
  git ls-files '*.sh' .ci/run 'deploy/debian/idempotencyd/p*' | xargs shellcheck
fi

if [ "$what" = all ] || [ "$what" = tidy ]; then
  echo "== clang-tidy"
  configure tidy
  # The generated sources, which the files include, and the plugin.
  cmake --build --preset tidy
  scripts/clang_tidy.py build/tidy "${@:2}"
fi
echo "lint: clean"
