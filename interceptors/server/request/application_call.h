#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_APPLICATION_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_APPLICATION_CALL_H_

#include <exception>
#include <string>
#include <string_view>

#include "absl/status/status.h"

#include "core/absl_view.h"
#include "interceptors/server/log/guard_log.h"

namespace idempotency::internal {

// Calls the application's code; its exceptions must not unwind through gRPC. Returns the
// function's result (a Status or a StatusOr), or INTERNAL if it threw, which is logged. `what`
// is for the log and the caller: "the scope function".
template <typename Function>
auto CallApplication(GuardLog& log, std::string_view operation, std::string_view what,
                     const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception& error) {
    log.Error(LogEvent::kApplicationThrew, AbslView(operation), ": ", AbslView(what),
              " threw: ", error.what());
  } catch (...) {
    log.Error(LogEvent::kApplicationThrew, AbslView(operation), ": ", AbslView(what), " threw");
  }
  return absl::InternalError(std::string(what) + " failed; nothing was run");
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_APPLICATION_CALL_H_
