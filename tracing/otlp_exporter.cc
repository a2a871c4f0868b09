#include "tracing/otlp_exporter.h"

#include <grpcpp/client_context.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>
#include <utility>
#include <variant>

#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"

#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {

namespace otlp = ::opentelemetry::proto;
using otlp::collector::trace::v1::ExportTraceServiceRequest;
using otlp::collector::trace::v1::ExportTraceServiceResponse;
using otlp::collector::trace::v1::TraceService;

namespace {

template <typename Id>
std::string Bytes(const Id& id) {
  return std::string(id.begin(), id.end());
}

void AddAttribute(const std::string& name,
                  const std::variant<std::string, std::int64_t, bool>& value,
                  google::protobuf::RepeatedPtrField<otlp::common::v1::KeyValue>* attributes) {
  otlp::common::v1::KeyValue& attribute = *attributes->Add();
  attribute.set_key(name);
  if (const auto* text = std::get_if<std::string>(&value); text != nullptr) {
    attribute.mutable_value()->set_string_value(*text);
  } else if (const auto* number = std::get_if<std::int64_t>(&value); number != nullptr) {
    attribute.mutable_value()->set_int_value(*number);
  } else {
    attribute.mutable_value()->set_bool_value(std::get<bool>(value));
  }
}

otlp::trace::v1::Span::SpanKind KindOf(SpanKind kind) {
  switch (kind) {
    case SpanKind::kInternal:
      return otlp::trace::v1::Span::SPAN_KIND_INTERNAL;
    case SpanKind::kServer:
      return otlp::trace::v1::Span::SPAN_KIND_SERVER;
    case SpanKind::kClient:
      break;
  }
  return otlp::trace::v1::Span::SPAN_KIND_CLIENT;
}

void Write(const Span& span, otlp::trace::v1::Span* proto) {
  proto->set_trace_id(Bytes(span.parent.trace_id));
  proto->set_span_id(Bytes(span.id));
  proto->set_parent_span_id(Bytes(span.parent.span_id));
  proto->set_name(span.name);
  proto->set_kind(KindOf(span.kind));
  proto->set_start_time_unix_nano(static_cast<std::uint64_t>(absl::ToUnixNanos(span.start)));
  proto->set_end_time_unix_nano(static_cast<std::uint64_t>(absl::ToUnixNanos(span.end)));
  // Sampled.
  proto->set_flags(1);
  for (const auto& [name, value] : span.attributes) {
    AddAttribute(name, value, proto->mutable_attributes());
  }
  for (const SpanLink& link : span.links) {
    otlp::trace::v1::Span::Link& written = *proto->add_links();
    written.set_trace_id(Bytes(link.target.trace_id));
    written.set_span_id(Bytes(link.target.span_id));
    AddAttribute("idempotency.link", std::string(link.relation), written.mutable_attributes());
  }
  if (span.failed) proto->mutable_status()->set_code(otlp::trace::v1::Status::STATUS_CODE_ERROR);
}

ExportTraceServiceRequest RequestOf(const std::vector<Span>& batch, const std::string& service,
                                    const std::string& version) {
  ExportTraceServiceRequest request;
  otlp::trace::v1::ResourceSpans& spans = *request.add_resource_spans();
  auto* const resource = spans.mutable_resource()->mutable_attributes();
  AddAttribute("service.name", service, resource);
  if (!version.empty()) AddAttribute("service.version", version, resource);
  otlp::trace::v1::ScopeSpans& scope = *spans.add_scope_spans();
  scope.mutable_scope()->set_name("grpc-idempotency");
  scope.mutable_scope()->set_version(IDEMPOTENCY_VERSION);
  for (const Span& span : batch) Write(span, scope.add_spans());
  return request;
}

// The errors of OTLP's specification: any other one is not repeated.
bool IsRetryable(grpc::StatusCode code) {
  return code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::DEADLINE_EXCEEDED ||
         code == grpc::StatusCode::RESOURCE_EXHAUSTED || code == grpc::StatusCode::ABORTED ||
         code == grpc::StatusCode::OUT_OF_RANGE || code == grpc::StatusCode::UNAVAILABLE ||
         code == grpc::StatusCode::DATA_LOSS;
}

}  // namespace

OtlpExporter::OtlpExporter(std::shared_ptr<grpc::Channel> channel, Options options, Events events)
    : channel_(std::move(channel)), options_(std::move(options)), events_(std::move(events)) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "otlp");
    Run();
  });
}

OtlpExporter::~OtlpExporter() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    end_by_ = After(std::chrono::steady_clock::now(), options_.end_timeout);
  }
  changed_.NotifyAll();
  thread_.join();
}

void OtlpExporter::Record(Span span) {
  {
    const MutexLock lock(mutex_);
    if (queue_.size() < options_.max_queued) {
      queue_.push_back(std::move(span));
      // The first one starts the linger, and the last one of a batch ends it.
      if (queue_.size() != 1 && queue_.size() != options_.max_batch) return;
      changed_.NotifyAll();
      return;
    }
  }
  events_.dropped(1);
}

std::vector<Span> OtlpExporter::NextBatch() {
  MutexLock lock(mutex_);
  while (queue_.empty() && !stopping_) changed_.Wait(lock);
  const auto full_by =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(options_.linger);
  while (queue_.size() < options_.max_batch && !stopping_) {
    if (!changed_.WaitUntil(lock, full_by)) break;
  }
  const std::size_t size = std::min(queue_.size(), options_.max_batch);
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(size);
  std::vector<Span> batch(std::make_move_iterator(queue_.begin()), std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
  return batch;
}

void OtlpExporter::Run() {
  for (std::vector<Span> batch = NextBatch(); !batch.empty(); batch = NextBatch()) {
    if (GiveUp(Export(batch))) return;
  }
}

std::chrono::steady_clock::time_point OtlpExporter::CallEnd() {
  const auto by_itself = DeadlineIn(options_.call_timeout);
  const MutexLock lock(mutex_);
  return stopping_ ? std::min(by_itself, end_by_) : by_itself;
}

bool OtlpExporter::GiveUp(bool exported) {
  std::size_t left = 0;
  {
    const MutexLock lock(mutex_);
    if (!stopping_) return false;
    if (exported && std::chrono::steady_clock::now() < end_by_) return false;
    left = queue_.size();
    queue_.clear();
  }
  if (left > 0) events_.dropped(left);
  return true;
}

bool OtlpExporter::Pause(absl::Duration duration) {
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(duration);
  MutexLock lock(mutex_);
  while (!stopping_ && changed_.WaitUntil(lock, until)) {
  }
  return !stopping_;
}

bool OtlpExporter::Export(const std::vector<Span>& batch) {
  const ExportTraceServiceRequest request = RequestOf(batch, options_.service, options_.version);
  const std::unique_ptr<TraceService::Stub> stub = TraceService::NewStub(channel_);
  absl::Duration pause = options_.backoff;
  for (int tries = 1;; ++tries, pause *= 2) {
    grpc::ClientContext context;
    context.set_deadline(GrpcDeadlineIn(TimeUntil(CallEnd(), std::chrono::steady_clock::now())));
    ExportTraceServiceResponse response;
    const grpc::Status status = stub->Export(&context, request, &response);
    if (status.ok()) {
      const auto size = static_cast<std::int64_t>(batch.size());
      const std::int64_t rejected =
          std::clamp<std::int64_t>(response.partial_success().rejected_spans(), 0, size);
      events_.exported(static_cast<std::size_t>(size - rejected));
      if (rejected > 0) events_.dropped(static_cast<std::size_t>(rejected));
      if (failing_) events_.outage(absl::OkStatus());
      failing_ = false;
      return true;
    }
    if (!failing_) events_.outage(FromGrpcStatus(status));
    failing_ = true;
    if (!IsRetryable(status.error_code()) || tries == options_.max_tries || !Pause(pause)) break;
  }
  events_.dropped(batch.size());
  return false;
}

}  // namespace idempotency::internal
