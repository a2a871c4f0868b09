#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_VERDICTS_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_VERDICTS_H_

#include "absl/status/status.h"

namespace idempotency::internal::testing {

// How a history tells an answer: its event and its verdict. A value type of
// literals.
struct LoggedAnswer {
  const char* event = "unknown";
  const char* verdict = "none";
};

// Of a failure, by its reason of the catalogue; anything else is unknown.
LoggedAnswer LoggedFailure(const absl::Status& status);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_VERDICTS_H_
