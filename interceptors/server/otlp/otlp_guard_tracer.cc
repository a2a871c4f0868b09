#include "grpc_idempotency/guard_tracing/otlp_guard_tracer.h"

#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"

#include "core/application_log.h"
#include "tracing/otlp_exporter.h"

namespace idempotency {

using internal::ApplicationLog;
using internal::OtlpExporter;
using internal::Span;
using internal::SpanKind;

namespace {

Span ToSpan(GuardSpan span) {
  Span made;
  made.parent = {span.trace_id, span.parent_span_id, true};
  made.id = span.span_id;
  made.kind = SpanKind::kInternal;
  made.name = std::move(span.name);
  made.start = span.start;
  made.end = span.end;
  made.attributes = std::move(span.attributes);
  for (const GuardSpan::Link& link : span.links) {
    made.links.push_back({{link.trace_id, link.span_id, true}, "first_attempt"});
  }
  made.failed = !span.status.ok();
  return made;
}

}  // namespace

class OtlpGuardTracer::Exporter {
 public:
  Exporter(std::shared_ptr<grpc::Channel> channel, OtlpGuardTracerOptions options)
      : log_(std::move(options.log)) {
    OtlpExporter::Options exporting;
    exporting.service = std::move(options.service_name);
    exporting.version = std::move(options.service_version);
    exporting.end_timeout = options.end_timeout;
    OtlpExporter::Events events;
    events.exported = [this](std::size_t spans) { exported_ += spans; };
    events.dropped = [this](std::size_t spans) { dropped_ += spans; };
    events.outage = [this](const absl::Status& status) { Report(status); };
    exporter_.emplace(std::move(channel), std::move(exporting), std::move(events));
  }

  void Record(Span span) { exporter_->Record(std::move(span)); }
  std::uint64_t exported() const { return exported_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  void Report(const absl::Status& status) const {
    if (status.ok()) {
      log_.Write(LogSeverity::kInfo, "the guard's spans are exported again");
    } else {
      log_.Write(LogSeverity::kWarning,
                 "the guard's spans cannot be exported: " + std::string(status.message()));
    }
  }

  const ApplicationLog log_;
  std::atomic<std::uint64_t> exported_{0};
  std::atomic<std::uint64_t> dropped_{0};
  // Last: its thread uses the others.
  std::optional<OtlpExporter> exporter_;
};

OtlpGuardTracer::OtlpGuardTracer(std::shared_ptr<grpc::Channel> channel,
                                 OtlpGuardTracerOptions options)
    : exporter_(std::make_unique<Exporter>(std::move(channel), std::move(options))) {}

OtlpGuardTracer::~OtlpGuardTracer() = default;

void OtlpGuardTracer::OnSpanEnd(GuardSpan span) { exporter_->Record(ToSpan(std::move(span))); }

std::uint64_t OtlpGuardTracer::exported() const { return exporter_->exported(); }

std::uint64_t OtlpGuardTracer::dropped() const { return exporter_->dropped(); }

}  // namespace idempotency
