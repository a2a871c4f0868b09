#include "interceptors/server/execution/hook_call.h"

#include "interceptors/server/request/application_call.h"

namespace idempotency::internal {
namespace {

template <typename Event>
void CallSafely(GuardLog& log, const std::function<void(const Event&)>& hook, const Event& event,
                const char* name) {
  if (hook == nullptr) return;
  RunApplication(log, event.operation, name, [&] { hook(event); });
}

}  // namespace

void CallHook(GuardLog& log, const std::function<void(const VerdictEvent&)>& hook,
              const VerdictEvent& event) {
  CallSafely(log, hook, event, "the hook on_verdict");
}
void CallHook(GuardLog& log, const std::function<void(const RecordedEvent&)>& hook,
              const RecordedEvent& event) {
  CallSafely(log, hook, event, "the hook on_recorded");
}
void CallHook(GuardLog& log, const std::function<void(const LostEvent&)>& hook,
              const LostEvent& event) {
  CallSafely(log, hook, event, "the hook on_lost");
}

}  // namespace idempotency::internal
