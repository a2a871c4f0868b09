// The only code that depends on gRPC's internal interfaces, together with the folder
// grpc_internals/.
//
// C++ gRPC has no public way to keep a handler from running: Hijack() is for clients only
// (grpc/grpc issues 24017 and 22395). The interfaces that are used instead, as of gRPC 1.51.1:
//   grpc::Service::{AddMethod, MarkMethodCallback, GetHandler}  protected
//   grpc::Service::methods_, grpc::ServerBuilder::interceptor_creators_  private
//   grpc::internal::{MethodHandler, RpcServiceMethod, RpcMethodHandler,
//     UnaryRunHandlerHelper, CallbackUnaryHandler, ServerStreamingHandler,
//     CallbackServerStreamingHandler, Call}
//   grpc::MessageHolder, grpc::SerializationTraits
// and of gRPC's core API a batch of one message (grpc_call_start_batch).
#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_H_

#include <grpcpp/server_builder.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "google/protobuf/descriptor.h"

#include "core/grpc_headers.h"
#include "interceptors/server/call/other_interceptors.h"
#include "interceptors/server/call/pending_call.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/threads/worker_pool.h"

namespace idempotency::internal::grpc_internals {

// The kind of a method's handler.
enum class MethodKind {
  kSyncUnary,
  kCallbackUnary,
  kSyncServerStreaming,
  kCallbackServerStreaming,
  // Including those that stream both ways.
  kSyncClientStreaming,
  kCallbackClientStreaming,
};

// The kind of every method of `service`, in the descriptor's order. FAILED_PRECONDITION, whose
// message names the method, for any other kind (completion-queue, raw, streamed unary), for a
// method that is not the descriptor's, and for one that was compiled without RTTI; or the service
// if it has generic methods, which cannot be distinguished from outside.
absl::StatusOr<std::vector<MethodKind>> Classify(
    const google::protobuf::ServiceDescriptor& descriptor, grpc::Service& service);

// True if SetInterceptorCreators was called with some.
bool HasInterceptors(const grpc::ServerBuilder& builder);

// The objects that all services of a guard share.
struct GuardedServiceDependencies {
  // Run the handlers of the callback API.
  WorkerPool& handlers;
  const OtherInterceptors& others;
  GuardLog& log;
};

// A service with the same methods in the same order, to be registered instead of `original`. A
// method with an admitter queries it before its handler runs; a method whose admitter is
// nullptr is passed through. `admitters` are in the descriptor's order, non-null only for
// methods whose requests are not a stream. The admitters, `original`, the objects that
// `dependencies` refers to, and the result must outlive the server.
std::unique_ptr<grpc::Service> MakeGuardedService(
    const google::protobuf::ServiceDescriptor& descriptor, absl::Span<const MethodKind> kinds,
    absl::Span<CallAdmitter* const> admitters, GuardedServiceDependencies dependencies,
    grpc::Service& original);

// OK if the gRPC and protobuf libraries of this program have the layout that this file assumes;
// otherwise FAILED_PRECONDITION, whose message names the difference.
absl::Status CheckLayout();

}  // namespace idempotency::internal::grpc_internals

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_GRPC_INTERNALS_H_
