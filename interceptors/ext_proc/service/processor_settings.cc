#include "interceptors/ext_proc/service/processor_settings.h"

#include <utility>

namespace idempotency::internal {

absl::StatusOr<std::shared_ptr<const ProcessorSettings>> ProcessorSettings::Make(
    ProcessorConfig config) {
  absl::StatusOr<std::unique_ptr<const RouteTable>> routes = RouteTable::Make(config);
  if (!routes.ok()) return routes.status();
  auto settings = std::make_shared<ProcessorSettings>();
  settings->routes = *std::move(routes);
  settings->grpc_front = GrpcFront(config.unrecorded_headers);
  settings->http_front = HttpFront(config.unrecorded_headers);
  settings->guard.name_space = config.name_space;
  settings->guard.on_unknown_outcome = config.on_unknown_outcome;
  settings->guard.recording_timeout = config.recording_timeout;
  settings->guard.closing_timeout = config.closing_timeout;
  // The routes have what they need of them.
  config.descriptor_sets.clear();
  settings->config = std::move(config);
  return std::shared_ptr<const ProcessorSettings>(std::move(settings));
}

}  // namespace idempotency::internal
