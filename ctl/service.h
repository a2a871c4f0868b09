#ifndef IDEMPOTENCY_CTL_SERVICE_H_
#define IDEMPOTENCY_CTL_SERVICE_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::internal {

// The methods of an idempotencyd that idempotencyctl calls, one at a time. An error has the
// server's reason and its message, and names the address if the server could not be reached.
// Thread-compatible; Cancel() is thread-safe.
class Service {
 public:
  struct Options {
    std::string address;
    absl::Duration timeout = absl::Seconds(10);
    // A bearer token for a connection that does not leave this machine, where there is no TLS;
    // empty: none.
    std::string local_token;
    // The advice in the error if the server closes the connection without an answer.
    std::string advice_if_closed;
  };

  Service(const std::shared_ptr<grpc::Channel>& channel, Options options);

  absl::StatusOr<v1::Record> Get(const v1::GetRequest& request);
  absl::StatusOr<v1::ListResponse> List(const v1::ListRequest& request);
  absl::StatusOr<v1::ResolveResponse> Resolve(const v1::ResolveRequest& request);
  absl::StatusOr<v1::PurgeResponse> Purge(const v1::PurgeRequest& request);
  absl::StatusOr<v1::ResealResponse> Reseal(const v1::ResealRequest& request);
  absl::StatusOr<v1::ListAuditResponse> ListAudit(const v1::ListAuditRequest& request);

  // Calls `visit` for each record, over all pages, until it returns false, and `page_ended` after
  // each page. A page behind the first one is requested kPageTries times
  // while the server is unavailable, stops or is overloaded: all before it would have been read in
  // vain.
  struct Visited {
    // None is left.
    bool all = false;
    // Those of the pages that the service cannot read, and so did not list.
    std::int64_t damaged = 0;
  };
  absl::StatusOr<Visited> VisitRecords(
      v1::ListRequest request, const std::function<bool(const v1::Record&)>& visit,
      const std::function<void()>& page_ended = [] {});
  // The same for the audit log: true if no entry is left. UNIMPLEMENTED if the server ignores
  // `newest_first`.
  absl::StatusOr<bool> VisitAudit(
      v1::ListAuditRequest request, const std::function<bool(const v1::AuditEntry&)>& visit,
      const std::function<void()>& page_ended = [] {});
  static constexpr int kPageTries = 6;

  // Ends the running call and all later ones with CANCELLED.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  template <typename Response, typename Request>
  absl::StatusOr<Response> NextPage(absl::StatusOr<Response> (Service::*method)(const Request&),
                                    const Request& request);
  bool cancelled() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits, unless Cancel() was called.
  void Pause(absl::Duration pause) ABSL_LOCKS_EXCLUDED(mutex_);
  template <typename Response, typename Method, typename Request>
  absl::StatusOr<Response> Call(const Method& method, const Request& request);

  const Options options_;
  const std::unique_ptr<v1::IdempotencyService::Stub> records_;
  const std::unique_ptr<v1::IdempotencyAdminService::Stub> administration_;
  mutable Mutex mutex_;
  CondVar was_cancelled_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // Null: none.
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_SERVICE_H_
