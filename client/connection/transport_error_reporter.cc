#include "client/connection/transport_error_reporter.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/answer_kind.h"
#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

// The message for a status that the service did not choose.
std::string DescribeFailure(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
      return "idempotencyd could not be reached, or the connection broke before it answered: "
             "repeat the call with the same tokens";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "idempotencyd did not answer before the deadline: repeat the call with the same "
             "tokens";
    case grpc::StatusCode::CANCELLED:
      return "the call was cancelled before idempotencyd answered: repeat the call with the same "
             "tokens";
    default:
      return absl::StrCat("the call to idempotencyd failed with status code ",
                          static_cast<int>(code),
                          " and without a reason: check the address, the credentials and any proxy "
                          "between, then repeat the call with the same tokens");
  }
}

// With TLS 1.3 a client learns that the server refuses its certificate by the closed connection, as
// it does of a process that ended.
std::string AdviceFor(const std::string& error) {
  if (!absl::StrContains(error, "Socket closed")) return "";
  return "; if it continues, idempotencyd refuses the connection: only one side uses TLS, or the "
         "client certificate of this one is missing, has expired, or is of an authority that "
         "--tls_client_ca lacks. The log of idempotencyd has event=\"handshake failed\"";
}

}  // namespace

void TransportErrorReporter::Answered() {
  if (answers()) return;
  if (state_.exchange(State::kAnswers) == State::kFails) {
    log_.Write(LogSeverity::kInfo, "idempotencyd answers again");
  }
}

absl::Status TransportErrorReporter::Failed(const grpc::Status& status) {
  Report(status);
  return ErrorOf(status);
}

void TransportErrorReporter::Report(const grpc::Status& status) {
  if (ReasonOf(FromGrpcStatus(status)).has_value()) return Answered();
  if (IsOverSendLimit(status)) return;
  // A passed deadline and a close by this side do not concern the daemon.
  const grpc::StatusCode code = status.error_code();
  const bool ours =
      code == grpc::StatusCode::DEADLINE_EXCEEDED || code == grpc::StatusCode::CANCELLED;
  if (!ours && !fails() && state_.exchange(State::kFails) != State::kFails) {
    log_.Write(
        LogSeverity::kWarning,
        absl::StrCat("calls to idempotencyd fail, reported once until it answers: status code ",
                     static_cast<int>(code), ": ", status.error_message(),
                     AdviceFor(status.error_message())));
  }
}

absl::Status TransportErrorReporter::ErrorOf(const grpc::Status& status) {
  absl::Status from_service = FromGrpcStatus(status);
  if (ReasonOf(from_service).has_value()) return from_service;
  if (IsOverSendLimit(status)) {
    return InvalidField("request", "is over the send limit of the channel to idempotencyd");
  }
  const grpc::StatusCode code = status.error_code();
  ErrorDetails details = RetryAfter(retry_delays::kReconnection);
  details.metadata[std::string(kStatusCodeDetail)] = absl::StrCat(static_cast<int>(code));
  return MakeError(Reason::kStoreUnavailable, DescribeFailure(code), std::move(details));
}

}  // namespace idempotency::internal
