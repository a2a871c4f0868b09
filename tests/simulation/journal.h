#ifndef IDEMPOTENCY_TESTS_SIMULATION_JOURNAL_H_
#define IDEMPOTENCY_TESTS_SIMULATION_JOURNAL_H_

#include <string>

#include "tests/simulation/scheduler.h"
#include "tests/simulation/tally.h"

namespace idempotency::internal::simulation {

// The results of a run: its trace while it runs (--trace), its counts, and the promise that it
// broke.
class Journal {
 public:
  // `failure` is shared with the program that waits for the run.
  Journal(Scheduler& scheduler, Tally& tally, bool trace, char* failure, std::size_t failure_bytes)
      : scheduler_(scheduler),
        tally_(tally),
        trace_(trace),
        failure_(failure),
        failure_bytes_(failure_bytes) {}

  void Counted(Count count) { ++tally_[count]; }
  void Counted(Count count, std::uint64_t times) { tally_[count] += times; }

  // As printf. Formats, and so costs, nothing unless it is printed.
  void Write(const char* format, ...) __attribute__((format(printf, 2, 3)));
  bool tracing() const { return trace_; }

  // A promise is broken: the run ends here.
  [[noreturn]] void Broken(const std::string& promise);

 private:
  Scheduler& scheduler_;
  Tally& tally_;
  const bool trace_;
  char* const failure_;
  const std::size_t failure_bytes_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_JOURNAL_H_
