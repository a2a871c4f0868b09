#ifndef IDEMPOTENCY_SERVER_TRACING_TESTING_SPAN_COLLECTOR_H_
#define IDEMPOTENCY_SERVER_TRACING_TESTING_SPAN_COLLECTOR_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"

#include "core/mutex.h"

namespace idempotency::internal::testing {

// A collector of OTLP on loopback, which keeps what it gets. Thread-safe.
class SpanCollector final
    : public opentelemetry::proto::collector::trace::v1::TraceService::Service {
 public:
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using Response = opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
  using Span = opentelemetry::proto::trace::v1::Span;

  explicit SpanCollector(const std::shared_ptr<grpc::ServerCredentials>& credentials =
                             grpc::InsecureServerCredentials()) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~SpanCollector() override {
    Thaw();
    server_->Shutdown();
  }

  const std::string& address() const { return address_; }
  // The answer of the next calls.
  void AnswerWith(const grpc::Status& status) {
    const MutexLock lock(mutex_);
    answer_ = status;
  }
  // Calls are not answered until Thaw().
  void Freeze() {
    const MutexLock lock(mutex_);
    frozen_ = true;
  }
  void Thaw() {
    const MutexLock lock(mutex_);
    frozen_ = false;
    changed_.NotifyAll();
  }

  // Waits for `count` spans; returns the spans by then, also if there are fewer after half a
  // minute.
  std::vector<Span> AwaitSpans(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mutex_);
    while (spans_.size() < count && changed_.WaitUntil(lock, deadline)) {
    }
    return spans_;
  }
  int AwaitCalls(int count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mutex_);
    while (calls_ < count && changed_.WaitUntil(lock, deadline)) {
    }
    return calls_;
  }
  // The bytes of all requests.
  std::string bytes() const {
    const MutexLock lock(mutex_);
    return bytes_;
  }

 private:
  grpc::Status Export(grpc::ServerContext* /*context*/, const Request* request,
                      Response* /*response*/) override {
    MutexLock lock(mutex_);
    ++calls_;
    changed_.NotifyAll();
    while (frozen_) changed_.Wait(lock);
    if (!answer_.ok()) return answer_;
    bytes_ += request->SerializeAsString();
    for (const auto& resource : request->resource_spans()) {
      for (const auto& scope : resource.scope_spans()) {
        spans_.insert(spans_.end(), scope.spans().begin(), scope.spans().end());
      }
    }
    changed_.NotifyAll();
    return grpc::Status::OK;
  }

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
  std::string bytes_ ABSL_GUARDED_BY(mutex_);
  grpc::Status answer_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool frozen_ ABSL_GUARDED_BY(mutex_) = false;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_SERVER_TRACING_TESTING_SPAN_COLLECTOR_H_
