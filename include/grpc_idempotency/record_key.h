#ifndef GRPC_IDEMPOTENCY_RECORD_KEY_H_
#define GRPC_IDEMPOTENCY_RECORD_KEY_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "idempotency/v1/record.pb.h"

namespace idempotency {

// Identifies one record. Two keys identify the same record exactly when all four parts are
// equal. A value type; thread-compatible.
struct RecordKey {
  std::string name_space;
  std::string scope;
  std::string operation;
  // Normalised: see NormaliseKey().
  std::string key;

  friend bool operator==(const RecordKey& a, const RecordKey& b) {
    return a.key == b.key && a.operation == b.operation && a.scope == b.scope &&
           a.name_space == b.name_space;
  }
  friend bool operator!=(const RecordKey& a, const RecordKey& b) { return !(a == b); }
};

// Converts a 36-character UUID to lower case; any other key is opaque and returned unchanged.
std::string NormaliseKey(std::string_view key);

// OK, or INVALID_ARGUMENT, whose message names the part: `key` alone is KEY_MISSING (empty) or
// KEY_INVALID, the other parts REQUEST_INVALID. Limits are in grpc_idempotency/limits.h. The
// message never contains the key. `field` is the path of the key in the request.
absl::Status ValidateRecordKey(const RecordKey& key, std::string_view field = "record_key");
// The same for a wire message, without converting it: NormaliseKey() does not change whether a
// key is valid.
absl::Status ValidateRecordKey(const v1::RecordKey& key, std::string_view field = "record_key");

// The record id. For a UUIDv7 key: its 48-bit timestamp (top bit 0), then the first 80 bits of
// SHA-256 over the four parts (namespace, scope, operation, key), each preceded by its length
// as 4 bytes big-endian. For any other key: a 1 bit, then the first 127 bits of that hash. Ids
// of UUIDv7 keys are therefore ordered by time, which keeps a large index fast. Different keys
// have different ids unless the hash collides, which stores detect.
RecordId RecordIdFor(const RecordKey& key);

// The creation time of a UUIDv7 key; nullopt for any other.
std::optional<absl::Time> KeyTime(const RecordKey& key);

// To and from the wire. FromProto normalises the key and checks nothing.
RecordKey FromProto(const v1::RecordKey& proto);
v1::RecordKey ToProto(const RecordKey& key);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_RECORD_KEY_H_
