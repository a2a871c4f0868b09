#!/usr/bin/env bash
# Formats, then checks that nothing changed; runs shellcheck, clang's thread-safety
# analysis and clang-tidy.
# Any finding is an error.
#
#   scripts/lint.sh            everything
#   scripts/lint.sh format     only the formatter (it also mends)
#   scripts/lint.sh locks      only clang's thread-safety analysis of the product
#   scripts/lint.sh tidy       only clang-tidy; with file names behind it, only on these.
#                              What was clean before is skipped
set -euo pipefail
cd "$(dirname "$0")/.."
what="${1:-all}"
scripts/install-dependencies.sh lint

sources() { git ls-files '*.cc' '*.h'; }

if [ "$what" = all ] || [ "$what" = format ]; then
  echo "== format"
  before="$(sources | xargs sha256sum)"
  sources | xargs clang-format-14 -i
  if [ "$before" != "$(sources | xargs sha256sum)" ]; then
    git --no-pager diff --stat
    echo "formatting has changed files: look at them and commit" >&2
    exit 1
  fi
  echo "== shell"
  git ls-files '*.sh' .ci/run | xargs shellcheck
fi

if [ "$what" = all ] || [ "$what" = locks ] || [ "$what" = tidy ]; then
  cmake --preset tidy >/dev/null
  # Generated sources must be there to be included; nothing else is built.
  cmake --build --preset tidy --target generated
fi

if [ "$what" = all ] || [ "$what" = locks ]; then
  echo "== locks"
  scripts/lock_check.py build/tidy
fi

if [ "$what" = all ] || [ "$what" = tidy ]; then
  echo "== clang-tidy"
  # Skips what was clean before: headers are read with the files.
  scripts/clang_tidy.py build/tidy "${@:2}"
fi
echo "lint: clean"
