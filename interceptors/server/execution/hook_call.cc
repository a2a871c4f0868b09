#include "interceptors/server/execution/hook_call.h"

#include <exception>

namespace idempotency::internal {
namespace {

template <typename Event>
void CallSafely(GuardLog& log, const std::function<void(const Event&)>& hook, const Event& event,
                const char* name) {
  if (hook == nullptr) return;
  try {
    hook(event);
  } catch (const std::exception& error) {
    log.Error(LogEvent::kApplicationThrew, event.operation, ": the hook ", name,
              " threw: ", error.what());
  } catch (...) {
    log.Error(LogEvent::kApplicationThrew, event.operation, ": the hook ", name, " threw");
  }
}

}  // namespace

void CallHook(GuardLog& log, const std::function<void(const VerdictEvent&)>& hook,
              const VerdictEvent& event) {
  CallSafely(log, hook, event, "on_verdict");
}
void CallHook(GuardLog& log, const std::function<void(const RecordedEvent&)>& hook,
              const RecordedEvent& event) {
  CallSafely(log, hook, event, "on_recorded");
}
void CallHook(GuardLog& log, const std::function<void(const LostEvent&)>& hook,
              const LostEvent& event) {
  CallSafely(log, hook, event, "on_lost");
}

}  // namespace idempotency::internal
