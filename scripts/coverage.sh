#!/usr/bin/env bash
# Runs every test, reports the lines that they executed, and fails when the core, the stores or
# the guard are below 90 %.
#
#   scripts/coverage.sh              builds the preset `coverage`, and runs its tests
#   scripts/coverage.sh FOLDER       reports the last run of such a build
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help)
    sed -n '2,6s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
build="${1:-build/coverage}"
if [ "$#" = 0 ]; then
  # Otherwise the counters of an earlier run would be added.
  find "$build" -name '*.gcda' -delete 2>/dev/null || true
  scripts/test.sh --preset=coverage
fi

# Files that no target contains any more: their line numbers are outdated.
find "$build" -name '*.gcno' | while read -r notes; do
  [ -e "${notes%.gcno}.o" ] || rm -f "$notes" "${notes%.gcno}.gcda"
done

summary="$(mktemp)"
trap 'rm -f "$summary"' EXIT
# Clang's counters are read by clang's own gcov.
gcovr --root . --object-directory "$build" --gcov-executable "llvm-cov-14 gcov" --exclude '.*_test\.cc$' --exclude '.*/testdata/.*' \
  --exclude 'build/.*' --exclude 'tests/.*' --gcov-ignore-parse-errors \
  --json-summary "$summary" "$build" 2>/dev/null

python3 - "$summary" <<'PY'
import json
import sys

# part, how its files start, the least that is accepted
PARTS = [
    ("core", "core/", 90),
    ("stores", "server/store/", 90),
    ("postgres", "postgres/", 90),
    ("guard", "interceptors/server/", 90),
    ("client", "client/", 0),
    ("client interceptor", "interceptors/client/", 0),
    ("daemon", "server/", 0),
    ("payments example", "examples/", 0),
]
files = json.load(open(sys.argv[1]))["files"]
low = []
for name, prefix, least in PARTS:
    own = [f for f in files if f["filename"].startswith(prefix)
           and not (prefix == "server/" and f["filename"].startswith("server/store/"))]
    total = sum(f["line_total"] for f in own)
    covered = sum(f["line_covered"] for f in own)
    percent = 100.0 * covered / total if total else 0.0
    print(f"{name:<20} {percent:5.1f} % of {total} lines" + (f" (at least {least})" if least else ""))
    if percent < least:
        low.append(name)
        for f in sorted(own, key=lambda f: f["line_percent"])[:8]:
            print(f"    {f['line_percent']:5.1f} %  {f['filename']}")
if low:
    sys.exit("coverage is too low: " + ", ".join(low))
PY
