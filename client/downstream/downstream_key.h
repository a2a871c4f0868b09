#ifndef IDEMPOTENCY_CLIENT_DOWNSTREAM_DOWNSTREAM_KEY_H_
#define IDEMPOTENCY_CLIENT_DOWNSTREAM_DOWNSTREAM_KEY_H_

#include <string>
#include <string_view>

#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

// Identifies one call of a guarded handler: every part belongs to the record,
// none to the attempt, so that every attempt gets the same key. A view: the
// data must outlive it.
struct DownstreamCall {
  // When the parent's record was made, by the store's clock.
  absl::Time created_at;
  RecordId record_id;
  // One of the two is empty. A call with a label is identified by that alone:
  // two methods called with one label have separate records anyway.
  std::string_view method;
  std::string_view label;
};

// The idempotency key of `call`: a UUIDv7 with the time of `created_at`, and
// the first 80 bits, less version and variant, of HMAC-SHA256 under `secret`
// over
//
//   "downstream-key-v1", record id (its 16 bytes), method, label
//
// each preceded by its length as 4 bytes, big-endian. The time lets the callee
// distinguish a key that may have run and been forgotten from a new one.
//
// This is a contract across builds: during a roll-out one attempt may run on
// the old build and the next one on the new. docs/workflows.md has vectors.
std::string DownstreamKey(std::string_view secret, const DownstreamCall& call);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_DOWNSTREAM_DOWNSTREAM_KEY_H_
