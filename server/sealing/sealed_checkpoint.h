#ifndef IDEMPOTENCY_SERVER_SEALING_SEALED_CHECKPOINT_H_
#define IDEMPOTENCY_SERVER_SEALING_SEALED_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "server/sealing/key_ring.h"

namespace idempotency::internal {

// The stored bytes of a sealed checkpoint: 0x00 'I' 'C' 0x01, the key's id (4 bytes, big-endian),
// and a box. Bound to the record, not to an attempt: the next attempt, whose token differs,
// receives it.

// The bytes that sealing adds to a checkpoint.
inline constexpr std::size_t kSealedCheckpointBytes = 36;

std::string SealCheckpoint(const SealingKey& key, const RecordKey& record, const RecordId& id,
                           std::string_view checkpoint);

// The id of the key that a sealed checkpoint names; 0 if it is too short for one.
std::uint32_t KeyOfCheckpoint(std::string_view stored);

// DATA_LOSS / RECORD_DAMAGED unless every byte is as it was sealed, for this record, under a key of
// the ring.
absl::StatusOr<std::string> OpenCheckpoint(const KeyRing& ring, const RecordKey& record,
                                           const RecordId& id, std::string_view stored);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_SEALED_CHECKPOINT_H_
