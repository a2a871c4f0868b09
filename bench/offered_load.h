#ifndef IDEMPOTENCY_BENCH_OFFERED_LOAD_H_
#define IDEMPOTENCY_BENCH_OFFERED_LOAD_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "bench/record_requests.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal::bench {

// Several namespaces that each offer cycles at a rate of their own, at the same time and over a
// connection of their own, as applications do. Refusals are counted and change nothing.
class OfferedLoad {
 public:
  struct Namespace {
    std::string name;
    // Cycles per second.
    double rate = 0;
    // With this many under way, further due pieces are shed.
    std::size_t max_in_flight = 0;
  };
  struct Options {
    // All settings but the namespace.
    RecordRequests::Options requests;
    absl::Duration warmup;
    absl::Duration duration = absl::Seconds(1);
  };

  using Connect = std::function<std::unique_ptr<Connection>()>;

  OfferedLoad(Connect connect, const Options& options)
      : connect_(std::move(connect)), options_(options) {}

  // Runs them and returns one JSON object: a report by namespace.
  std::string Run(const std::vector<Namespace>& namespaces);

 private:
  const Connect connect_;
  const Options options_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_OFFERED_LOAD_H_
