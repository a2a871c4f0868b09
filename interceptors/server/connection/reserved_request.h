#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_RESERVED_REQUEST_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_RESERVED_REQUEST_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "google/protobuf/repeated_field.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

// The parts of a reservation's request that decide which answer is valid for it: the four parts of
// its record key, and its fingerprints. They are encoded in one block, which costs less memory and
// fewer allocations than the messages. Immutable.
class ReservedRequest {
 public:
  using Fingerprints = google::protobuf::RepeatedPtrField<v1::Fingerprint>;

  ReservedRequest(const v1::RecordKey& key, const Fingerprints& fingerprints);

  // The hash of a record key.
  static std::size_t HashOf(const v1::RecordKey& key);
  std::size_t hash() const { return hash_; }

  // Each compares byte by byte, without an allocation.
  bool HasKey(const v1::RecordKey& key) const;
  bool HasFingerprints(const Fingerprints& fingerprints) const;
  bool HasSameKey(const ReservedRequest& other) const { return key() == other.key(); }

  // The memory that it allocated.
  std::size_t allocated_bytes() const { return encoded_.capacity(); }

 private:
  std::string_view key() const { return std::string_view(encoded_).substr(0, key_bytes_); }
  std::string_view fingerprints() const { return std::string_view(encoded_).substr(key_bytes_); }

  const std::size_t hash_;
  std::size_t key_bytes_ = 0;
  std::string encoded_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_RESERVED_REQUEST_H_
