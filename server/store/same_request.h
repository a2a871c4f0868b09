// Whether a record is of the same request, or has the same reply, as an operation: both may be
// stored under keys that no longer seal.
#ifndef IDEMPOTENCY_SERVER_STORE_SAME_REQUEST_H_
#define IDEMPOTENCY_SERVER_STORE_SAME_REQUEST_H_

#include <cstdint>

#include "absl/types/span.h"

#include "core/sha256.h"
#include "grpc_idempotency/fingerprint.h"
#include "server/store/admin_operations.h"
#include "server/store/record_operations.h"

namespace idempotency::internal {

// The comparison of a record's fingerprints with all those of a request.
FingerprintMatch CompareRequest(absl::Span<const Fingerprint> stored, const ReserveOp& op);

// Whether a completed record, `stored` being the digest of its reply, has the reply of `op`.
bool IsSameReply(const Sha256Digest& stored, const CompleteOp& op);
bool IsSameReply(const Sha256Digest& stored, const ResolveOp& op);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_SAME_REQUEST_H_
