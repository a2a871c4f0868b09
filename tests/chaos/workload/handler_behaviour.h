#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_HANDLER_BEHAVIOUR_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_HANDLER_BEHAVIOUR_H_

#include <chrono>
#include <cstdint>

#include "grpc_idempotency/record_key.h"

namespace idempotency::internal::testing {

// The action of a handler in one attempt: drawn from the seed, the record and the attempt, so that
// every server would do the same. A value type.
struct HandlerBehaviour {
  enum class Ending {
    kOk,
    kRefuse,           // a recorded code, without an effect
    kFailBefore,       // an indefinite code, before the effect
    kFailAfter,        // an indefinite code, after the effect
    kNothingHappened,  // without an effect, and reports that
  };

  Ending ending = Ending::kOk;
  // Before the effect.
  std::chrono::milliseconds work{0};
  // Checks whether its reservation is lost before it acts.
  bool looks = false;

  // `lapse` is the time after which a running handler's lease is over.
  static HandlerBehaviour Draw(std::uint64_t seed, const RecordKey& key, std::uint32_t attempt,
                               std::chrono::milliseconds lapse);
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_HANDLER_BEHAVIOUR_H_
