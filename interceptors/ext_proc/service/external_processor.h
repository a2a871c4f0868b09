#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXTERNAL_PROCESSOR_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXTERNAL_PROCESSOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

#include "core/mutex.h"
#include "interceptors/ext_proc/service/exchange_bounds.h"
#include "interceptors/ext_proc/service/exchange_guard.h"
#include "interceptors/ext_proc/service/misconfigured_proxies.h"
#include "interceptors/ext_proc/service/processor_stream.h"
#include "interceptors/server/threads/worker_pool.h"

namespace idempotency::internal {

// The service that Envoy calls for each request of a guarded route, whatever passes the calls to
// it. Thread-safe.
class ExternalProcessor {
 public:
  // OK if the caller may open streams; on a thread of gRPC's.
  using AdmitProxy = std::function<absl::Status(const grpc::ServerContextBase&)>;

  // `events` outlives it.
  ExternalProcessor(std::shared_ptr<const ProcessorSettings> settings,
                    std::unique_ptr<Connection> connection, const ExchangeBounds::Limits& limits,
                    AdmitProxy admit_proxy, ProcessorEvents& events, std::shared_ptr<GuardLog> log);
  // After the gRPC server of its calls has ended. Waits for outstanding recordings.
  ~ExternalProcessor() = default;
  ExternalProcessor(const ExternalProcessor&) = delete;
  ExternalProcessor& operator=(const ExternalProcessor&) = delete;

  // The settings for exchanges that begin from now on, the limits for all.
  void Configure(std::shared_ptr<const ProcessorSettings> settings,
                 const ExchangeBounds::Limits& limits) ABSL_LOCKS_EXCLUDED(mutex_);
  // Refuses requests that have not been forwarded, and new ones, with STORE_UNAVAILABLE. The others
  // go on: their server's shutdown waits for them, and then ends their streams with an error.
  void Close();

  // A call of the method `Process`. It deletes itself.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* BeginStream(
      const grpc::ServerContextBase& context);

 private:
  absl::Status Admit(const grpc::ServerContextBase& context);
  void Forget(const ProcessorStream* stream);

  void WarnOfOtherFingerprints(const RouteTable& before, const RouteTable& now) const;
  void WarnOfStricterKeys(const RouteTable& before, const RouteTable& now) const;
  void WarnOfOtherRecords(const ProcessorSettings& before, const ProcessorSettings& now) const;

  const AdmitProxy admit_proxy_;
  ProcessorEvents& events_;
  const std::shared_ptr<GuardLog> log_;
  ExchangeBounds bounds_;
  MisconfiguredProxies misconfigured_;
  ExchangeGuard guard_;

  Mutex mutex_;
  std::shared_ptr<const ProcessorSettings> settings_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<const ProcessorStream*, std::weak_ptr<ProcessorStream>> streams_
      ABSL_GUARDED_BY(mutex_);
  // For large messages. It ends first.
  WorkerPool workers_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_EXTERNAL_PROCESSOR_H_
