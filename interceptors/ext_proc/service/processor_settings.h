#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROCESSOR_SETTINGS_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROCESSOR_SETTINGS_H_

#include <memory>

#include "absl/status/statusor.h"

#include "grpc_idempotency/server_guard/guard_options.h"
#include "interceptors/ext_proc/front/grpc_front.h"
#include "interceptors/ext_proc/front/http_front.h"
#include "interceptors/ext_proc/policy/processor_config.h"
#include "interceptors/ext_proc/policy/route_table.h"

namespace idempotency::internal {

// A configuration of the processor that is valid, with the routes that it makes. Exchanges keep the
// one under which they began. Immutable.
struct ProcessorSettings {
  // As RouteTable::Make.
  static absl::StatusOr<std::shared_ptr<const ProcessorSettings>> Make(ProcessorConfig config);

  ProcessorConfig config;
  std::unique_ptr<const RouteTable> routes;
  GrpcFront grpc_front;
  HttpFront http_front;
  // The options of the guarded operations.
  GuardOptions guard;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROCESSOR_SETTINGS_H_
