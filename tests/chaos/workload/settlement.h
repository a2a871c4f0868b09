#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_SETTLEMENT_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_SETTLEMENT_H_

#include <string>
#include <utility>
#include <vector>

#include "tests/chaos/workload/known_records.h"
#include "tests/chaos/workload/raw_client.h"
#include "tests/chaos/workload/settler.h"

namespace idempotency::internal::testing {

// After the last fault: settles every record, then reads the final state of each.
// Thread-compatible.
class Settlement {
 public:
  Settlement(std::vector<KnownRecords::Record> records, Settler& settler, RawClient& raw)
      : records_(std::move(records)), settler_(settler), raw_(raw) {}

  // The result, as a line for people.
  std::string Run();

 private:
  // Calls `visit` with each record, from several threads.
  template <typename Visit>
  void ForEach(Visit visit);

  const std::vector<KnownRecords::Record> records_;
  Settler& settler_;
  RawClient& raw_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_SETTLEMENT_H_
