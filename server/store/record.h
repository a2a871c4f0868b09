#ifndef IDEMPOTENCY_SERVER_STORE_RECORD_H_
#define IDEMPOTENCY_SERVER_STORE_RECORD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

// How to handle a record whose lease has expired. Stored with the record.
enum class LeaseExpiry { kTakeOver, kRequireRecovery };

enum class RecordState { kReserved, kCompleted, kReleased, kUnknown };

// What a store keeps about one key, as Get returns it.
struct Record {
  RecordId id;
  RecordKey key;
  RecordState state = RecordState::kReserved;
  std::uint32_t attempt = 0;
  std::vector<Fingerprint> fingerprints;
  LeaseExpiry on_lease_expiry = LeaseExpiry::kRequireRecovery;
  std::optional<RecordKey> parent;
  std::map<std::string, std::string> labels;
  // The reason of the last ended attempt; empty if its lease expired.
  std::string release_reason;
  absl::Time created_at;
  // For a record that was released: the time of the release, or the end of its
  // pause. Never after `expires_at`.
  absl::Time lease_expires_at;
  std::optional<absl::Time> completed_at;
  absl::Time expires_at;
  // From then on the reply has no content; nullopt: it keeps it until the end.
  std::optional<absl::Time> reply_expires_at;
  // The key is refused until then; nullopt: it has no tombstone. Moves with
  // expires_at.
  std::optional<absl::Time> tombstone_until;
  // Set exactly when COMPLETED.
  std::optional<EncodedReply> reply;
  // The token of the current grant, or of the last one when no attempt holds the record: a record
  // keeps it through COMPLETED, RELEASED and UNKNOWN. It authorises writes: it is never put into an
  // answer to a caller.
  Uuid token;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_RECORD_H_
