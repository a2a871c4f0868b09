#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_APPLICATION_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_APPLICATION_CALL_H_

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

#include "core/absl_view.h"
#include "interceptors/server/log/guard_log.h"

namespace idempotency::internal {

// Runs the application's code; its exceptions must not unwind through gRPC or the guard's threads.
// False if it threw, which is logged. `what` is for the log: "the tracer".
template <typename Function>
bool RunApplication(GuardLog& log, std::string_view operation, std::string_view what,
                    const Function& function) {
  try {
    function();
    return true;
  } catch (const std::exception& error) {
    log.Error(LogEvent::kApplicationThrew, AbslView(operation), ": ", AbslView(what),
              " threw: ", error.what());
  } catch (...) {
    log.Error(LogEvent::kApplicationThrew, AbslView(operation), ": ", AbslView(what), " threw");
  }
  return false;
}

// The same for code before the handler, with a result: a Status or a StatusOr. INTERNAL if it
// threw.
template <typename Function>
auto CallApplication(GuardLog& log, std::string_view operation, std::string_view what,
                     const Function& function) -> decltype(function()) {
  std::optional<decltype(function())> result;
  RunApplication(log, operation, what, [&] { result.emplace(function()); });
  if (result.has_value()) return *std::move(result);
  return absl::InternalError(std::string(what) + " failed; nothing was run");
}

// The application's callback `done`, to be called as RunApplication() does.
template <typename Done>
auto Contained(std::shared_ptr<GuardLog> log, std::string operation, const char* what, Done done) {
  return [log = std::move(log), operation = std::move(operation), what,
          done = std::move(done)](auto&& result) {
    RunApplication(*log, operation, what, [&] { done(std::forward<decltype(result)>(result)); });
  };
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_APPLICATION_CALL_H_
