#ifndef GRPC_IDEMPOTENCY_GUARD_TRACING_OTLP_GUARD_TRACER_H_
#define GRPC_IDEMPOTENCY_GUARD_TRACING_OTLP_GUARD_TRACER_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

#include "grpc_idempotency/log_sink.h"
#include "grpc_idempotency/server_guard/guard_tracer.h"

namespace idempotency {

struct OtlpGuardTracerOptions {
  // The resource's `service.name` and `service.version`: those of the application, under which its
  // other spans are shown. The version may be empty.
  std::string service_name = "unknown_service";
  std::string service_version;
  // One line when spans cannot be exported, and one when they can be again; empty: spdlog's default
  // logger.
  LogSink log;
  // How long the destructor sends what is queued. 2 s, as the daemon.
  absl::Duration end_timeout = absl::Seconds(2);
};

// Sends the guard's spans to an OpenTelemetry collector, by OTLP over gRPC, from a thread of its
// own. It is for applications without the OTLP exporter of OpenTelemetry's SDK: both define OTLP's
// messages, and protobuf ends a process that has them twice. With the SDK, derive from GuardTracer
// and pass its spans on. The queue is bounded (limits::kMaxQueuedSpans); while the collector is
// slow or gone, spans are dropped and counted, and no call waits. Thread-safe.
class OtlpGuardTracer final : public GuardTracer {
 public:
  // `channel` leads to the collector and must not be null. Does not block, and does not fail while
  // the collector cannot be reached.
  explicit OtlpGuardTracer(std::shared_ptr<grpc::Channel> channel,
                           OtlpGuardTracerOptions options = {});
  // Sends what is queued until `end_timeout` is over, and drops the rest.
  ~OtlpGuardTracer() override;

  void OnSpanEnd(GuardSpan span) override;

  // Spans that the collector took; spans that are lost.
  std::uint64_t exported() const;
  std::uint64_t dropped() const;

 private:
  class Exporter;

  const std::unique_ptr<Exporter> exporter_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_GUARD_TRACING_OTLP_GUARD_TRACER_H_
