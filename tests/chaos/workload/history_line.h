#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_HISTORY_LINE_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_HISTORY_LINE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "grpc_idempotency/record_key.h"

namespace idempotency::internal::testing {

// One line of a history, in the format of tests/chaos/README.md. `t` is the time at which it was
// made, by CLOCK_MONOTONIC.
class HistoryLine {
 public:
  explicit HistoryLine(std::string_view event);

  HistoryLine& Text(std::string_view name, std::string_view value);
  HistoryLine& Number(std::string_view name, std::int64_t value);
  HistoryLine& Flag(std::string_view name, bool value);
  // [namespace, scope, operation, key]
  HistoryLine& Record(std::string_view name, const RecordKey& key);

  // With its end.
  std::string ToString() const;

  // Nanoseconds of CLOCK_MONOTONIC: the same for all processes of a machine.
  static std::int64_t Now();

 private:
  void Name(std::string_view name);

  std::string text_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_HISTORY_LINE_H_
