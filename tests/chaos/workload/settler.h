#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_SETTLER_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_SETTLER_H_

#include <chrono>

#include "tests/chaos/workload/guarded_client.h"
#include "tests/chaos/workload/known_records.h"
#include "tests/chaos/workload/raw_client.h"

namespace idempotency::internal::testing {

// Settles records: repeats requests until the answer is a final one. Thread-safe.
class Settler {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  Settler(GuardedClient& guarded, RawClient& raw, KnownRecords& known)
      : guarded_(guarded), raw_(raw), known_(known) {}

  // False if there was none in time.
  bool Settle(KnownRecords::Record record, Deadline deadline);

 private:
  bool SettleGuarded(const KnownRecords::Record& record, Deadline deadline);
  bool SettleRaw(const KnownRecords::Record& record, Deadline deadline);

  GuardedClient& guarded_;
  RawClient& raw_;
  KnownRecords& known_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_SETTLER_H_
