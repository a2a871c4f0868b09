#ifndef IDEMPOTENCY_TRACING_OTLP_EXPORTER_H_
#define IDEMPOTENCY_TRACING_OTLP_EXPORTER_H_

#include <grpcpp/channel.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "grpc_idempotency/limits.h"
#include "tracing/tracer.h"

namespace idempotency::internal {

// Sends spans to an OpenTelemetry collector, by OTLP over gRPC, in batches from a thread of its
// own. The queue is bounded: while the collector is slow, frozen or gone, spans are dropped and
// counted, and no operation waits.
//
// Destruction sends what is queued until `end_timeout` is over, and drops the rest; a call that
// runs when it begins ends within its own time limit. Thread-safe.
class OtlpExporter final : public Tracer {
 public:
  // Spans of one call to the collector.
  static constexpr std::size_t kMaxSpanBatch = 512;

  struct Options {
    // The attributes `service.name` and `service.version`; an empty version is left out.
    std::string service;
    std::string version;
    std::size_t max_queued = limits::kMaxQueuedSpans;
    std::size_t max_batch = kMaxSpanBatch;
    // How long a span waits for others.
    absl::Duration linger = absl::Seconds(1);
    // Time limit of one call.
    absl::Duration call_timeout = absl::Seconds(3);
    // For all calls that begin during the destruction.
    absl::Duration end_timeout = absl::Seconds(2);
    // The first pause after a call that failed; each further one is twice as long.
    absl::Duration backoff = absl::Seconds(1);
    // After this many calls with one batch, it is dropped.
    int max_tries = 3;
  };

  // Called on any thread; must not block. All of them must be set.
  struct Events {
    std::function<void(std::size_t)> exported;
    // Spans that are lost.
    std::function<void(std::size_t)> dropped;
    // Once when spans cannot be exported, with the reason, and once with OK when they can be again.
    std::function<void(const absl::Status&)> outage;
  };

  OtlpExporter(std::shared_ptr<grpc::Channel> channel, Options options, Events events);
  ~OtlpExporter() override;

  void Record(Span span) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  // The next batch, once it is full or has lingered; empty once there is none and it stops.
  std::vector<Span> NextBatch() ABSL_LOCKS_EXCLUDED(mutex_);
  // Until it was taken, or is dropped: then false.
  bool Export(const std::vector<Span>& batch);
  // When the next call must have ended.
  std::chrono::steady_clock::time_point CallEnd() ABSL_LOCKS_EXCLUDED(mutex_);
  // Once it stops, a collector that does not answer, or not in time, gets no further call. True if
  // that is so; then nothing is queued.
  bool GiveUp(bool exported) ABSL_LOCKS_EXCLUDED(mutex_);
  // False once it stops.
  bool Pause(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<grpc::Channel> channel_;
  const Options options_;
  const Events events_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Span> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Once it stops.
  std::chrono::steady_clock::time_point end_by_ ABSL_GUARDED_BY(mutex_);
  // One log line for an outage. The thread's own.
  bool failing_ = false;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_TRACING_OTLP_EXPORTER_H_
