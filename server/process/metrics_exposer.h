#ifndef IDEMPOTENCY_SERVER_PROCESS_METRICS_EXPOSER_H_
#define IDEMPOTENCY_SERVER_PROCESS_METRICS_EXPOSER_H_

#include <prometheus/registry.h>

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "server/files/file_descriptor.h"
#include "server/limits.h"
#include "server/observability/observer.h"
#include "server/process/connection_acceptor.h"
#include "server/process/network_address.h"
#include "server/process/scrape.h"

namespace idempotency::internal {

// Answers GET /metrics over plain HTTP until it is destroyed, one request for each
// connection. One thread answers all of them without waiting: a client that sends or
// reads slowly, or not at all, delays no other client.
class MetricsExposer {
 public:
  struct Limits {
    // Above it the oldest connection is closed. As many more may wait while a page is made.
    std::size_t scrapes = limits::kMaxScrapes;
    // The maximum duration of one.
    absl::Duration timeout = limits::kScrapeTimeout;
  };

  // FAILED_PRECONDITION if it cannot listen there. `observer` must outlive it.
  static absl::StatusOr<std::unique_ptr<MetricsExposer>> Start(
      const NetworkAddress& address, std::shared_ptr<prometheus::Registry> registry,
      const Limits& limits, Observer& observer);

  // Stops listening, and closes all connections.
  ~MetricsExposer();
  MetricsExposer(const MetricsExposer&) = delete;
  MetricsExposer& operator=(const MetricsExposer&) = delete;

  // With the real port in place of 0.
  const NetworkAddress& address() const { return acceptor_->address(); }

 private:
  MetricsExposer(std::shared_ptr<prometheus::Registry> registry, const Limits& limits);

  void Run();
  // On the acceptor's thread.
  void Arrived(int socket) ABSL_LOCKS_EXCLUDED(mutex_);
  // False once it is to stop.
  bool Wait();
  void TakeArrivals();
  void AdvanceScrapes();
  void Wake();

  const std::shared_ptr<prometheus::Registry> registry_;
  const Limits limits_;
  // Readable when the thread has new work.
  const FileDescriptor wake_;

  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<FileDescriptor> arrivals_ ABSL_GUARDED_BY(mutex_);

  // Used by the thread only; the oldest one first.
  std::list<Scrape> scrapes_;

  std::thread thread_;
  std::optional<ConnectionAcceptor> acceptor_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_METRICS_EXPOSER_H_
