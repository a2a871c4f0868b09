#ifndef IDEMPOTENCY_CLIENT_TRANSPORT_ERROR_REPORTER_H_
#define IDEMPOTENCY_CLIENT_TRANSPORT_ERROR_REPORTER_H_

#include <grpcpp/support/status.h>

#include <atomic>
#include <utility>

#include "absl/status/status.h"

#include "core/application_log.h"

namespace idempotency::internal {

// What the callers of a Connection are told about calls that failed, and what
// the log is: when the daemon goes and when it comes back, once each, since a
// line per failed call would bury it. Thread-safe.
class TransportErrorReporter {
 public:
  explicit TransportErrorReporter(ApplicationLog log = ApplicationLog()) : log_(std::move(log)) {}

  // The daemon answered.
  void Answered();

  // Whether the daemon answered last; false until it first did.
  bool answers() const { return state_.load(std::memory_order_relaxed) == State::kAnswers; }
  // Whether the last call failed.
  bool fails() const { return state_.load(std::memory_order_relaxed) == State::kFails; }

  // How a call that ended with `status` is answered. A status of the catalogue
  // as it is; any other is STORE_UNAVAILABLE, with the code in its metadata, by which
  // KindOfAnswer() tells a refusal from an answer that never came. Its
  // message names the status code alone: gRPC's text, which may hold addresses,
  // goes to the log. A message over the channel's send limit is REQUEST_INVALID:
  // it can never be sent.
  absl::Status Failed(const grpc::Status& status);

 private:
  enum class State { kNotKnown, kAnswers, kFails };

  const ApplicationLog log_;
  std::atomic<State> state_{State::kNotKnown};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_TRANSPORT_ERROR_REPORTER_H_
