#include "interceptors/server/guard_hooks.h"

#include <exception>

#include "interceptors/server/log/guard_log.h"

namespace idempotency {
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

void Call(GuardLog& log, const std::function<void(const VerdictEvent&)>& hook,
          const VerdictEvent& event) {
  CallSafely(log, hook, event, "on_verdict");
}
void Call(GuardLog& log, const std::function<void(const RecordedEvent&)>& hook,
          const RecordedEvent& event) {
  CallSafely(log, hook, event, "on_recorded");
}
void Call(GuardLog& log, const std::function<void(const LostEvent&)>& hook,
          const LostEvent& event) {
  CallSafely(log, hook, event, "on_lost");
}

}  // namespace idempotency
