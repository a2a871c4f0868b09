#ifndef IDEMPOTENCY_CLIENT_CONNECTION_TRANSPORT_ERROR_REPORTER_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_TRANSPORT_ERROR_REPORTER_H_

#include <grpcpp/support/status.h>

#include <atomic>
#include <utility>

#include "absl/status/status.h"

#include "core/application_log.h"

namespace idempotency::internal {

// The errors that callers of a Connection get for failed calls, and the log
// lines: one when the daemon becomes unreachable and one when it is back, since
// a line per failed call would flood the log. Thread-safe.
class TransportErrorReporter {
 public:
  explicit TransportErrorReporter(ApplicationLog log = ApplicationLog()) : log_(std::move(log)) {}

  // The daemon answered.
  void Answered();

  // Whether the daemon answered last; false until it first did.
  bool answers() const { return state_.load(std::memory_order_relaxed) == State::kAnswers; }
  // Whether the last call failed.
  bool fails() const { return state_.load(std::memory_order_relaxed) == State::kFails; }

  // The error for a call that ended with `status`, which is reported.
  absl::Status Failed(const grpc::Status& status);
  // What Failed() reports, and what it returns. A status of the catalogue is
  // unchanged; any other becomes STORE_UNAVAILABLE, with the code in its metadata, by
  // which KindOfAnswer() distinguishes a refusal from a missing answer. Its message
  // contains only the status code: gRPC's text, which may hold addresses, goes to the
  // log. A message over the channel's send limit is REQUEST_INVALID: it can never be
  // sent.
  void Report(const grpc::Status& status);
  static absl::Status ErrorOf(const grpc::Status& status);

 private:
  enum class State { kNotKnown, kAnswers, kFails };

  const ApplicationLog log_;
  std::atomic<State> state_{State::kNotKnown};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_TRANSPORT_ERROR_REPORTER_H_
