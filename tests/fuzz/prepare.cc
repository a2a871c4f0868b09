#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <spdlog/spdlog.h>

#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {

void Prepare() {
  grpc_init();
  spdlog::set_level(spdlog::level::off);
  google::protobuf::SetLogHandler(nullptr);
}

}  // namespace idempotency::internal::fuzz
