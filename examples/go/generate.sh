#!/usr/bin/env bash
# Makes gen/ from payments.proto and the protos of the service: those of libgrpc-idempotency-dev,
# or of the folder that PROTOS names. Needs protoc; go.mod pins its plugins.
set -euo pipefail
cd "$(dirname "$0")"
protos="${PROTOS:-/usr/include}"
module=example.org/payments

mkdir -p gen/bin
GOBIN="$PWD/gen/bin" go install tool
options="module=$module"
for proto in record idempotency_service options; do
  options="$options,Midempotency/v1/$proto.proto=$module/gen/idempotencyv1"
done
options="$options,Midempotency/testing/v1/testing_service.proto=$module/gen/testingv1"
PATH="$PWD/gen/bin:$PATH" "${PROTOC:-protoc}" -I. -I"$protos" \
  --go_out="$options:." --go-grpc_out="$options:." \
  payments.proto idempotency/v1/record.proto idempotency/v1/idempotency_service.proto \
  idempotency/v1/options.proto idempotency/testing/v1/testing_service.proto
