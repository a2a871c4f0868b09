#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_ANSWER_MEMORY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_ANSWER_MEMORY_H_

#include <cstddef>

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// The memory of a `replay` or `reserved` answer, itself included, without the allocator's overhead.
// About as protobuf's SpaceUsedLong() counts it, which visits every field by reflection and takes
// as long as the rest of storing an answer; never much less, for any content.
std::size_t MemoryOf(const v1::ReserveResponse& answer);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CONNECTION_ANSWER_MEMORY_H_
