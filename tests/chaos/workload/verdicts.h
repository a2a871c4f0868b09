#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_VERDICTS_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_VERDICTS_H_

#include "absl/status/status.h"

namespace idempotency::internal::testing {

// An answer in a history: its event and its verdict. A value type of literals.
struct LoggedAnswer {
  const char* event = "unknown";
  const char* verdict = "none";
};

// The verdict of a failure, by its reason of the catalogue; any other is unknown.
LoggedAnswer LoggedFailure(const absl::Status& status);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_VERDICTS_H_
