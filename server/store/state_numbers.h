#ifndef IDEMPOTENCY_SERVER_STORE_STATE_NUMBERS_H_
#define IDEMPOTENCY_SERVER_STORE_STATE_NUMBERS_H_

#include <cstdint>
#include <optional>

#include "idempotency/v1/record.pb.h"
#include "server/store/record.h"

namespace idempotency::internal {

// The enums of store.h by their numbers on the wire, which are also those that
// the stores keep in their tables: they must never change.

inline v1::RecordState ToProto(RecordState state) {
  switch (state) {
    case RecordState::kReserved:
      return v1::RECORD_STATE_RESERVED;
    case RecordState::kCompleted:
      return v1::RECORD_STATE_COMPLETED;
    case RecordState::kReleased:
      return v1::RECORD_STATE_RELEASED;
    case RecordState::kUnknown:
      break;
  }
  return v1::RECORD_STATE_UNKNOWN;
}

// nullopt for a number that is not a state.
inline std::optional<RecordState> RecordStateFrom(std::int64_t number) {
  switch (number) {
    case v1::RECORD_STATE_RESERVED:
      return RecordState::kReserved;
    case v1::RECORD_STATE_COMPLETED:
      return RecordState::kCompleted;
    case v1::RECORD_STATE_RELEASED:
      return RecordState::kReleased;
    case v1::RECORD_STATE_UNKNOWN:
      return RecordState::kUnknown;
    default:
      return std::nullopt;
  }
}

inline v1::LeaseExpiry ToProto(LeaseExpiry policy) {
  return policy == LeaseExpiry::kRequireRecovery ? v1::LEASE_EXPIRY_REQUIRE_RECOVERY
                                                 : v1::LEASE_EXPIRY_TAKE_OVER;
}

// nullopt for a number that is not a policy.
inline std::optional<LeaseExpiry> LeaseExpiryFrom(std::int64_t number) {
  switch (number) {
    case v1::LEASE_EXPIRY_TAKE_OVER:
      return LeaseExpiry::kTakeOver;
    case v1::LEASE_EXPIRY_REQUIRE_RECOVERY:
      return LeaseExpiry::kRequireRecovery;
    default:
      return std::nullopt;
  }
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_STATE_NUMBERS_H_
