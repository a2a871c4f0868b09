#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_UUID_NUMBER_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_UUID_NUMBER_H_

#include <cstdint>

#include "absl/numeric/int128.h"

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

// A UUID as a number in the same order.
inline absl::uint128 NumberOf(const Uuid& uuid) {
  absl::uint128 number = 0;
  for (const std::uint8_t byte : uuid.bytes()) number = (number << 8) | byte;
  return number;
}

inline Uuid UuidOf(absl::uint128 number) {
  Uuid::Bytes bytes{};
  for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte, number >>= 8) {
    *byte = static_cast<std::uint8_t>(absl::Uint128Low64(number) & 0xFF);
  }
  return Uuid(bytes);
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_UUID_NUMBER_H_
