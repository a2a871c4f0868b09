#include "interceptors/server/request/trace_metadata.h"

#include <spdlog/spdlog.h>

#include <memory>
#include <string_view>

#include "core/log_throttle.h"
#include "interceptors/server/wire/traceparent.h"

namespace idempotency {
namespace {

void LogLeftOut() {
  // Never destroyed: calls may end after static destruction has begun.
  static LogThrottle& throttle = *std::make_unique<LogThrottle>().release();
  const std::optional<std::int64_t> before = throttle.Admit();
  if (!before.has_value()) return;
  spdlog::warn("a call's {} is none by W3C Trace Context; its trace is not recorded ({} before it)",
               kTraceparent, *before);
}

}  // namespace

std::optional<std::string> TraceparentIn(const grpc::ServerContextBase& context) {
  const auto entry = context.client_metadata().find({kTraceparent.data(), kTraceparent.size()});
  if (entry == context.client_metadata().end()) return std::nullopt;
  const std::string_view value(entry->second.data(), entry->second.size());
  if (IsTraceparent(value)) return std::string(value);
  LogLeftOut();
  return std::nullopt;
}

}  // namespace idempotency
