#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_RECORD_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_RECORD_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/decision.h"
#include "server/store/redis/reply.h"

namespace idempotency::internal {

// The values of a record's hash, which server/store/redis/scripts/record.lua names. Texts and
// digests are as they are, times are microseconds since 1970 in decimal.

// The four parts, each after its length.
std::string PackRedisKey(const RecordKey& key);
// Names and values, each after its length.
std::string PackRedisLabels(const std::map<std::string, std::string>& labels);
// nullopt for bytes that PackRedisLabels did not write.
std::optional<std::map<std::string, std::string>> UnpackRedisLabels(std::string_view bytes);

// The 16 bytes.
std::string_view UuidBytes(const Uuid& uuid);
// nullopt unless there are 16 bytes.
std::optional<Uuid> UuidFrom(std::string_view bytes);
std::string RedisTime(absl::Time time);

// The answer of read.lua.
struct RedisRead {
  absl::Time now;
  // The size of the reply, read or not.
  std::size_t reply_bytes = 0;
  // The reply was larger than requested: only its digest is there.
  bool reply_left_out = false;
  // nullopt: there is no record.
  std::optional<StoredRecord> stored;
};

// DATA_LOSS / RECORD_DAMAGED if the hash is no record.
absl::StatusOr<RedisRead> ReadRedisRecord(const RecordId& id, RedisValue answer);

// DATA_LOSS / RECORD_DAMAGED.
absl::Status RedisRecordDamaged();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_RECORD_H_
