#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_RESERVE_REQUEST_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_RESERVE_REQUEST_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "grpc_idempotency/fingerprint_input.h"
#include "grpc_idempotency/record_key.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/log/guard_log.h"

namespace idempotency::internal {

// One fingerprint for each algorithm, in their order. Algorithms may be the application's own:
// INTERNAL if one throws or returns an invalid digest, which is logged.
absl::StatusOr<std::vector<Fingerprint>> RequestFingerprints(
    GuardLog& log, absl::Span<const FingerprintAlgorithm> algorithms,
    const FingerprintInput& input);

// The request for a reservation of a guarded call or an operation without a server. The admission
// adds the settings of its method.
std::shared_ptr<v1::ReserveRequest> MakeReserveRequest(RecordKey record_key,
                                                       std::vector<Fingerprint> fingerprints);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_RESERVE_REQUEST_H_
