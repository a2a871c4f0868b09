#ifndef IDEMPOTENCY_CLIENT_CONNECTION_DEFERRED_ACTIONS_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_DEFERRED_ACTIONS_H_

#include <grpcpp/support/status.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"

#include "client/connection/outstanding_operation.h"
#include "client/connection/session_stream.h"
#include "client/connection/transport_error_reporter.h"
#include "core/application_log.h"
#include "grpc_idempotency/client/connection.h"
#include "grpc_idempotency/log_sink.h"

namespace idempotency::internal {

// The actions that a session decided under its lock and executes without it:
// gRPC and the callers of the session may call back at once.
//
// Not thread-safe.
class DeferredActions {
 public:
  using Operation = std::unique_ptr<OutstandingOperation>;

  void Start(SessionStream& stream) { starts_.push_back(&stream); }
  void Write(SessionStream& stream, std::string frame) {
    writes_.emplace_back(&stream, std::move(frame));
  }
  // After the writes.
  void Read(SessionStream& stream) { reads_.push_back(&stream); }
  void HalfClose(SessionStream& stream) { half_closes_.push_back(&stream); }
  void Release(SessionStream& stream) { releases_.push_back(&stream); }
  // A stream may end by itself meanwhile, so this one is held.
  void Cancel(std::shared_ptr<SessionStream> stream) { cancels_.push_back(std::move(stream)); }
  // `answer` must live until Run() has returned.
  void Answer(Operation operation, v1::SessionAnswer& answer) {
    answers_.emplace_back(std::move(operation), &answer);
  }
  void Fail(Operation operation, absl::Status status) {
    failures_.emplace_back(std::move(operation), std::move(status));
  }
  // The call ended with `status`, which ReportFailure() gets too if it concerns the daemon.
  void Fail(Operation operation, grpc::Status status) {
    failures_.emplace_back(std::move(operation), std::move(status));
  }
  // A stream failed with `status`.
  void ReportFailure(grpc::Status status) { failed_ = std::move(status); }
  // The daemon answered.
  void ReportAnswer() { answered_ = true; }
  void LogLine(LogSeverity severity, std::string line) {
    lines_.emplace_back(severity, std::move(line));
  }
  void SendBy(Connection& other, Operation operation) {
    detours_.emplace_back(std::move(operation), &other);
  }

  // Executes all actions, once. The callers' follow those of the streams.
  void Run();
  // Whether there is anything for Log().
  bool reports() const { return answered_ || failed_.has_value() || !lines_.empty(); }
  // After Run(): writes the lines of the log, since the application's may block.
  void Log(TransportErrorReporter& transport_errors, const ApplicationLog& log) const;

 private:
  using Failure = std::variant<absl::Status, grpc::Status>;

  std::vector<SessionStream*> starts_;
  absl::InlinedVector<std::pair<SessionStream*, std::string>, 1> writes_;
  absl::InlinedVector<SessionStream*, 1> reads_;
  std::vector<SessionStream*> half_closes_;
  std::vector<SessionStream*> releases_;
  std::vector<std::shared_ptr<SessionStream>> cancels_;
  std::vector<std::pair<Operation, v1::SessionAnswer*>> answers_;
  std::vector<std::pair<Operation, Failure>> failures_;
  std::vector<std::pair<Operation, Connection*>> detours_;
  std::optional<grpc::Status> failed_;
  bool answered_ = false;
  std::vector<std::pair<LogSeverity, std::string>> lines_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_DEFERRED_ACTIONS_H_
