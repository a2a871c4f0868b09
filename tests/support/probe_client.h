#ifndef IDEMPOTENCY_TESTS_SUPPORT_PROBE_CLIENT_H_
#define IDEMPOTENCY_TESTS_SUPPORT_PROBE_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grpc_idempotency/errors.h"
#include "tests/support/probe.h"

namespace idempotency::internal::testing {

// The result of one call.
struct Outcome {
  grpc::Status status;
  // The bytes as they arrived, not parsed and written again.
  std::string body;
  std::multimap<std::string, std::string> initial_metadata;
  std::multimap<std::string, std::string> trailing_metadata;

  ActReply reply() const;
  // The reason of the catalogue, if the status has one.
  std::optional<Reason> reason() const;
  bool replayed() const { return Trailer("idempotency-replayed") == "true"; }
  // "" when absent.
  std::string Trailer(const std::string& key) const;
};

// The request.
struct Call {
  std::string account = "alice";
  std::int64_t amount = 1;
  // One `idempotency-key` entry each.
  std::vector<std::string> keys;
  std::multimap<std::string, std::string> metadata;
  std::string service = "idempotency.testing.Probe";
  std::string method = "Act";
  std::chrono::milliseconds timeout{20000};
  // When set, the call can be cancelled from outside.
  std::shared_ptr<grpc::ClientContext> context = std::make_shared<grpc::ClientContext>();
};

// Calls the Probe service over a channel of its own, byte for byte, without
// retries and without the client interceptor. Thread-safe.
class ProbeClient {
 public:
  explicit ProbeClient(const std::string& address);
  explicit ProbeClient(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  Outcome Send(const Call& call) const;
  // Act with one key.
  Outcome Act(const std::string& key, std::int64_t amount = 1) const;
  // Repeats the call, each time with a new context, while the answer is retryable (UNAVAILABLE,
  // ABORTED, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED), until `limit`.
  Outcome SendUntilSettled(Call call, std::chrono::milliseconds limit) const;

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_PROBE_CLIENT_H_
