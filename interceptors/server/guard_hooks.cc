#include "interceptors/server/guard_hooks.h"

#include <spdlog/spdlog.h>

#include <exception>

namespace idempotency {
namespace {

template <typename Event>
void CallSafely(const std::function<void(const Event&)>& hook, const Event& event,
                const char* name) {
  if (hook == nullptr) return;
  try {
    hook(event);
  } catch (const std::exception& error) {
    spdlog::error("{}: the hook {} threw: {}", event.operation, name, error.what());
  } catch (...) {
    spdlog::error("{}: the hook {} threw", event.operation, name);
  }
}

}  // namespace

void Call(const std::function<void(const VerdictEvent&)>& hook, const VerdictEvent& event) {
  CallSafely(hook, event, "on_verdict");
}
void Call(const std::function<void(const RecordedEvent&)>& hook, const RecordedEvent& event) {
  CallSafely(hook, event, "on_recorded");
}
void Call(const std::function<void(const LostEvent&)>& hook, const LostEvent& event) {
  CallSafely(hook, event, "on_lost");
}

}  // namespace idempotency
