#ifndef IDEMPOTENCY_TESTS_SUPPORT_SERVICE_CLIENT_H_
#define IDEMPOTENCY_TESTS_SUPPORT_SERVICE_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::internal::testing {

// Calls idempotencyd directly, as any gRPC client would: one call at a time, without retries, on a
// connection of its own. Errors carry the service's details, so that ReasonOf and DetailsOf find
// them. Thread-safe.
class ServiceClient {
 public:
  explicit ServiceClient(const std::string& address);

  absl::StatusOr<v1::ReserveResponse> Call(const v1::ReserveRequest& request) const;
  absl::StatusOr<v1::CompleteResponse> Call(const v1::CompleteRequest& request) const;
  absl::StatusOr<v1::ReleaseResponse> Call(const v1::ReleaseRequest& request) const;
  absl::StatusOr<v1::ExtendResponse> Call(const v1::ExtendRequest& request) const;
  absl::StatusOr<v1::GetResponse> Call(const v1::GetRequest& request) const;
  // Bytes instead of a message, to "Reserve", "Complete" and so on.
  absl::Status CallRaw(const std::string& method, const std::string& bytes,
                       std::chrono::seconds limit = std::chrono::seconds(30)) const;

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::IdempotencyService::Stub> stub_;
};

// Requests that the service accepts, for the record of one key.
v1::RecordKey SomeRecordKey(const std::string& key);
v1::ReserveRequest SomeReserve(const std::string& key);
v1::CompleteRequest SomeComplete(const std::string& key, const std::string& token,
                                 const std::string& body);
v1::ReleaseRequest SomeRelease(const std::string& key, const std::string& token);
v1::ExtendRequest SomeExtend(const std::string& key, const std::string& token);
v1::GetRequest SomeGet(const std::string& key);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_SERVICE_CLIENT_H_
