#include <grpc/grpc.h>
#include <spdlog/spdlog.h>

#include "core/protobuf_version.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {

void Prepare() {
  grpc_init();
  spdlog::set_level(spdlog::level::off);
  static const SilentProtobuf silent;
}

}  // namespace idempotency::internal::fuzz
