#include "interceptors/server/request/trace_metadata.h"

#include <string_view>

#include "core/absl_view.h"
#include "interceptors/server/wire/traceparent.h"

namespace idempotency::internal {

std::optional<std::string> TraceparentIn(const grpc::ServerContextBase& context, GuardLog& log) {
  const auto entry =
      context.client_metadata().find({kTraceparentName.data(), kTraceparentName.size()});
  if (entry == context.client_metadata().end()) return std::nullopt;
  const std::string_view value(entry->second.data(), entry->second.size());
  if (IsTraceparent(value)) return std::string(value);
  log.Warn(LogEvent::kInvalidTrace, "a call's ", AbslView(kTraceparentName),
           " does not conform to W3C Trace Context; its trace is not recorded");
  return std::nullopt;
}

}  // namespace idempotency::internal
