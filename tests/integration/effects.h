#ifndef IDEMPOTENCY_TESTS_INTEGRATION_EFFECTS_H_
#define IDEMPOTENCY_TESTS_INTEGRATION_EFFECTS_H_

#include <map>
#include <string>

#include "core/mutex.h"
#include "tests/support/probe_service.h"

namespace idempotency::internal::testing {

// The effects of handlers, kept outside of the code under test. Each run counts, and returns a
// reply that no other run would. Thread-safe.
class Effects {
 public:
  // A handler that has one effect for the request's account.
  ProbeHandler Handler();

  // The number of runs of the handler for each account.
  std::map<std::string, int> Runs();

 private:
  Mutex mutex_;
  std::map<std::string, int> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_INTEGRATION_EFFECTS_H_
