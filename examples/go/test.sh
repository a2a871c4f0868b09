#!/usr/bin/env bash
# Tests this example in a copy of it, in the build folder BUILD, with that build's idempotencyd:
#
#   examples/go/test.sh BUILD
set -euo pipefail
build="$(cd "$1" && pwd)"
cd "$(dirname "$0")/../.."
root="$PWD"
copy="$build/tools/go-example"
export PROTOS="$root/proto" IDEMPOTENCYD="$build/bin/idempotencyd" GOWORK=off

rm -rf "$copy"
mkdir -p "$copy"
cp -R examples/go/. "$copy"
cd "$copy"
rm -rf gen
./generate.sh

export FINGERPRINT_VECTORS="$root/tests/vectors/fingerprint_v1.json"
export FINGERPRINT_DESCRIPTORS="$copy/gen/vectors.bin"
"${PROTOC:-protoc}" "-I$root" "-I$PROTOS" --include_imports "--descriptor_set_out=$FINGERPRINT_DESCRIPTORS" \
  "$root"/core/testdata/*.proto

unformatted="$(gofmt -l idempotency main.go)"
if [ -n "$unformatted" ]; then
  echo "gofmt changes: $unformatted" >&2
  exit 1
fi
go vet ./...
go test -race -count=1 -timeout=300s ./...
