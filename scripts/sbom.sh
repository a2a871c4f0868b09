#!/usr/bin/env bash
# Writes a software bill of materials beside each Debian package: CycloneDX 1.5, as JSON, from the
# libraries that its program is linked with on this machine, or the packages that it depends on.
#
#   scripts/sbom.sh                 of build/package/packages/*.deb (scripts/packages.sh)
#   scripts/sbom.sh PACKAGE.deb...  of these
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0" ;;
  *)
    [ $# -gt 0 ] || set -- build/package/packages/*.deb
    exec python3 scripts/sbom.py "$@"
    ;;
esac
