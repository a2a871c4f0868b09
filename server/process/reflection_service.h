#ifndef IDEMPOTENCY_SERVER_PROCESS_REFLECTION_SERVICE_H_
#define IDEMPOTENCY_SERVER_PROCESS_REFLECTION_SERVICE_H_

#include <grpcpp/server_builder.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

#include "server/process/reflected_files.h"
#include "server/rpc/queued_methods.h"
#include "server/rpc/raw_service.h"

namespace idempotency::internal {

// grpc.reflection.v1.ServerReflection, and v1alpha, on completion queues. gRPC's own is a
// synchronous service: its calls, and then those of all methods that no service has, wait inside
// gRPC, where nothing bounds them (docs/adr/0054-calls-arrive-with-their-headers.md).
// Thread-safe.
class ReflectionService {
 public:
  // A longer request ends its call with INVALID_ARGUMENT: names are shorter.
  static constexpr std::size_t kMaxRequestBytes = 4096;

  ReflectionService() = default;
  // After the server that it was registered with has ended.
  ~ReflectionService() = default;
  ReflectionService(const ReflectionService&) = delete;
  ReflectionService& operator=(const ReflectionService&) = delete;

  // Once; it lists `services`, and its own names. The methods are called once the server is
  // started.
  void Register(grpc::ServerBuilder& builder, std::vector<std::string> services,
                QueuedMethods& methods);

 private:
  class InfoCall;

  RawService rpc_{grpc::reflection::v1::ServerReflection::service_full_name()};
  RawService alpha_rpc_{grpc::reflection::v1alpha::ServerReflection::service_full_name()};
  std::optional<ReflectedFiles> files_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_REFLECTION_SERVICE_H_
