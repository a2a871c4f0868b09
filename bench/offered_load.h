#ifndef IDEMPOTENCY_BENCH_OFFERED_LOAD_H_
#define IDEMPOTENCY_BENCH_OFFERED_LOAD_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "bench/record_requests.h"

#include "client/connection.h"

namespace idempotency::bench {

// Several namespaces that each offer cycles at a rate of their own, at the same
// time, whatever becomes of the others.
class OfferedLoad {
 public:
  struct Namespace {
    std::string name;
    // Cycles per second.
    double rate = 0;
    // A caller has only so many threads.
    std::size_t max_in_flight = 0;
  };
  struct Options {
    // Everything but the namespace.
    RecordRequests::Options requests;
    absl::Duration warmup;
    absl::Duration duration = absl::Seconds(1);
  };

  // `connection` must outlive it.
  OfferedLoad(Connection& connection, const Options& options)
      : connection_(connection), options_(options) {}

  // Runs them and answers one JSON object: a report by namespace.
  std::string Run(const std::vector<Namespace>& namespaces);

 private:
  Connection& connection_;
  const Options options_;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_BENCH_OFFERED_LOAD_H_
