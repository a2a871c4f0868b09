// How a request becomes an operation: its key, and its fingerprints. Thread-safe.
#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_CALL_IDENTITY_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_CALL_IDENTITY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

#include "grpc_idempotency/fingerprint.h"
#include "interceptors/ext_proc/exchange/http_message.h"
#include "interceptors/ext_proc/policy/guarded_route.h"

namespace idempotency::internal {

// The key of a gRPC call from its metadata and, if `message` is not nullptr, from the route's
// field, as a guard gets it.
//   KEY_MISSING  there is no key
//   KEY_INVALID  malformed; or two of them differ; or of another format than the route accepts
absl::StatusOr<std::string> GrpcKey(const GuardedRoute& route, const HeaderList& headers,
                                    const google::protobuf::Message* message);
// The same for HTTP: from one header. KEY_INVALID for several, even equal ones.
absl::StatusOr<std::string> HttpKey(const GuardedRoute& route, const HeaderList& headers);

// The request of a gRPC call. `message` is nullptr if its type is not known.
struct GrpcCall {
  std::string_view bytes;
  std::unique_ptr<google::protobuf::Message> message;
};

// The memory that the fields of the request's message will take once it is parsed, in
// addition to its bytes; 0 if its type is not known. Builds nothing.
//   REQUEST_INVALID  more than `most`; or what ReadGrpcCall() refuses, as far as it is seen
absl::StatusOr<std::size_t> ParsedFieldBytes(const GuardedRoute& route, std::string_view body,
                                             std::size_t most);

// INVALID_ARGUMENT / REQUEST_INVALID unless it is one message, which parses as the route's type.
// Measure it first.
absl::StatusOr<GrpcCall> ReadGrpcCall(const GuardedRoute& route, std::string_view body);

// Version 1 with a message, as a guard computes it; version 2 without.
absl::StatusOr<std::vector<Fingerprint>> GrpcFingerprints(const GuardedRoute& route,
                                                          std::string_view operation,
                                                          const HeaderList& headers,
                                                          const GrpcCall& call);
// Version 2, over method, host, path with query, content type and codings, body, and the policy's
// headers.
std::vector<Fingerprint> HttpFingerprints(const GuardedRoute& route, const HttpMessage& request);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_CALL_IDENTITY_H_
