#ifndef IDEMPOTENCY_CORE_RANDOM_UUIDS_H_
#define IDEMPOTENCY_CORE_RANDOM_UUIDS_H_

#include <cstddef>
#include <vector>

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

// So many as from Uuid::Random(), by one request to OpenSSL's generator: a request costs more than
// its bytes.
std::vector<Uuid> RandomUuids(std::size_t count);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_RANDOM_UUIDS_H_
