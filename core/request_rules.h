// The rules of the wire contract for requests, in one place: the service checks
// received requests with these functions, the guard checks its callers' input
// before it sends anything, and test doubles of the service apply the same
// rules.
//
// Every failure is INVALID_ARGUMENT and names each field that is at fault
// (core/field_faults.h): KEY_MISSING or KEY_INVALID if record_key.key is one of
// them, REQUEST_INVALID otherwise. No input is quoted. Limits are in
// grpc_idempotency/limits.h. All functions are thread-safe.
#ifndef IDEMPOTENCY_CORE_REQUEST_RULES_H_
#define IDEMPOTENCY_CORE_REQUEST_RULES_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/record_key.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// Whole requests.
absl::Status ValidateRequest(const v1::ReserveRequest& request);
absl::Status ValidateRequest(const v1::CompleteRequest& request);
absl::Status ValidateRequest(const v1::ReleaseRequest& request);
absl::Status ValidateRequest(const v1::ExtendRequest& request);
absl::Status ValidateRequest(const v1::GetRequest& request);

// Parts that a caller sets separately. `field` is the path of the part in the
// checked input.
//
// At most limits::kMaxLabels, all of them UTF-8 without control characters, no
// key empty, within limits::kMaxLabelKeyBytes and limits::kMaxLabelValueBytes.
absl::Status ValidateLabels(const std::map<std::string, std::string>& labels,
                            std::string_view field = "labels");
// UTF-8 without control characters, within limits::kMaxReleaseReasonBytes.
absl::Status ValidateReleaseReason(std::string_view reason, std::string_view field = "reason");
// The stored bytes of a sealed checkpoint begin with these (server/sealing/sealed_checkpoint.h).
inline constexpr std::string_view kSealedCheckpointMagic("\0IC\x01", 4);
inline bool IsSealedCheckpoint(std::string_view stored) {
  return stored.substr(0, kSealedCheckpointMagic.size()) == kSealedCheckpointMagic;
}

// Any bytes, within limits::kMaxCheckpointBytes, that do not begin with kSealedCheckpointMagic: a
// service without a key ring must not take a sealed one for a caller's.
absl::Status ValidateCheckpoint(std::string_view checkpoint, std::string_view field = "checkpoint");
// A reply that can be sent and stored, of any size. The field is `reply`.
absl::Status ValidateReply(const v1::Reply& reply);
// A record key. REQUEST_INVALID for its key too: KEY_MISSING and KEY_INVALID are
// reserved for the call's own key.
absl::Status ValidateParent(const RecordKey& parent, std::string_view field = "parent");

// The value of a Duration that must lie within [min, max].
absl::StatusOr<absl::Duration> DurationFrom(std::string_view field,
                                            const google::protobuf::Duration& proto,
                                            absl::Duration min, absl::Duration max);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_REQUEST_RULES_H_
