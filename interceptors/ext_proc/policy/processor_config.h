#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_PROCESSOR_CONFIG_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_PROCESSOR_CONFIG_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "core/exchange_limits.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "idempotency/v1/options.pb.h"
#include "interceptors/ext_proc/request/scope_source.h"

namespace idempotency::internal {

// The settings of the external processor, as they are configured. A value type.
struct ProcessorConfig {
  enum class KeyFormat {
    kAny,
    // As Uuidv7Keys().
    kUuidv7,
  };
  // gRPC methods by name, or a pattern of names.
  struct GrpcMethods {
    std::string name;
    // nullopt: the policy that a descriptor declares, or the defaults.
    std::optional<v1::Policy> policy;
    // "": the path.
    std::string operation = "";
    KeyFormat key_format = KeyFormat::kAny;
  };
  // Requests of HTTP by method and path.
  struct HttpRoute {
    // "POST", in upper case.
    std::vector<std::string> methods;
    std::string path;
    std::optional<v1::Policy> policy;
    // "": of the method and the path.
    std::string operation = "";
    KeyFormat key_format = KeyFormat::kAny;
  };
  struct DescriptorSet {
    std::string file;
    // A serialised google.protobuf.FileDescriptorSet with all imports.
    std::string content;
  };

  std::string name_space;
  ScopeSource scope = SharedScopeName{};
  std::vector<DescriptorSet> descriptor_sets;
  std::optional<MethodPolicy::OnUnknownOutcome> on_unknown_outcome;
  std::vector<GrpcMethods> grpc_methods;
  std::vector<HttpRoute> http_routes;
  std::size_t max_request_bytes = limits::kMaxExchangeRequestBytes;
  // As in GuardOptions.
  absl::Duration recording_timeout = GuardOptions().recording_timeout;
  absl::Duration closing_timeout = GuardOptions().closing_timeout;
  // The names, in lower case, of headers and metadata of replies that are not stored.
  std::vector<std::string> unrecorded_headers;
  // The proxies can stream a response in place of the upstream's: Envoy 1.37 or newer.
  bool streams_replays = true;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_PROCESSOR_CONFIG_H_
