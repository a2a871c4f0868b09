#ifndef IDEMPOTENCY_CLIENT_CONNECTION_CALLER_CALLBACK_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_CALLER_CALLBACK_H_

#include <exception>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "core/application_log.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal {

// Calls the callback of a Connection's caller. Its exceptions are logged: they must not unwind
// through gRPC, nor past the other answers of a thread.
template <typename Response>
void AnswerCaller(const ApplicationLog& log, const Connection::Callback<Response>& done,
                  absl::StatusOr<Response> response) {
  try {
    done(std::move(response));
  } catch (const std::exception& error) {
    log.Write(LogSeverity::kError,
              absl::StrCat("the callback of an operation threw: ", error.what()));
  } catch (...) {
    log.Write(LogSeverity::kError, "the callback of an operation threw");
  }
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_CALLER_CALLBACK_H_
