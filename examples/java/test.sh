#!/usr/bin/env bash
# Tests this example in a copy of it, in the build folder BUILD, with that build's idempotencyd:
#
#   examples/java/test.sh BUILD
set -euo pipefail
build="$(cd "$1" && pwd)"
cd "$(dirname "$0")/../.."
root="$PWD"
copy="$build/tools/java-example"
export PROTOS="$root/proto" IDEMPOTENCYD="$build/bin/idempotencyd"

rm -rf "$copy"
mkdir -p "$copy"
cp -R examples/java/. "$copy"
cd "$copy"
rm -rf target

export FINGERPRINT_VECTORS="$root/tests/vectors/fingerprint_v1.json"
export FINGERPRINT_DESCRIPTORS="$copy/vectors.bin"
"${PROTOC:-protoc}" "-I$root" "-I$PROTOS" --include_imports "--descriptor_set_out=$FINGERPRINT_DESCRIPTORS" \
  "$root"/core/testdata/*.proto

mvn --batch-mode --no-transfer-progress --quiet test
