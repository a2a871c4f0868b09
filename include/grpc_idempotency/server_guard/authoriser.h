#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_AUTHORISER_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_AUTHORISER_H_

#include <grpcpp/server_context.h>

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"

namespace idempotency {

// Decides whether the caller may make this request now. A replay does not run the handler, so a
// check of permissions in the handler does not protect recorded replies: a caller who has lost a
// permission still gets them. This check is made for every call of a guarded method, before its
// record is looked up: for replays, for first calls, once for a call that waits for another one,
// and for calls that run unguarded, without a key or under fail_open. Not for ServerGuard::Begin,
// whose caller is the application itself. Protect() refuses an authoriser of a method with key
// kNone.
//
// Decide by the caller's right to the object, not by state that the operation changes: if the first
// call uses up a grant, its retry is denied instead of replayed. So a denial does not prove that
// nothing has happened: an earlier call with the key may have had its effect.
//
// A status other than OK becomes the call's status. This call reserves, stores and runs nothing,
// the record stays as it is, and the answer has no metadata of a record: a client that keeps its
// key may use it again later. UNAVAILABLE if the decision cannot be made now: clients retry it.
//
// The request is as it was sent; for a server-streaming method it is the one request. Called on
// gRPC's threads, as the scope function: it must be thread-safe and must not block.
using Authoriser = std::function<absl::Status(const grpc::ServerContextBase& context,
                                              const google::protobuf::Message& request)>;

// The same for one generated message type, which must be the method's request:
//
//   AuthoriserFor<ChargeRequest>(
//       [](const grpc::ServerContextBase& context, const ChargeRequest& charge) {
//         return MayCharge(context, charge.account())
//                    ? absl::OkStatus()
//                    : absl::PermissionDeniedError("not your account");
//       })
//
// INTERNAL for a request of another type.
template <typename Request, typename Function>
Authoriser AuthoriserFor(Function authorise) {
  return
      [authorise = std::move(authorise)](const grpc::ServerContextBase& context,
                                         const google::protobuf::Message& message) -> absl::Status {
        const auto* const request = google::protobuf::DynamicCastToGenerated<Request>(&message);
        if (request != nullptr) return authorise(context, *request);
        return absl::InternalError(absl::StrCat("the authoriser of ", message.GetTypeName(),
                                                " is made for ", Request::descriptor()->full_name(),
                                                "; nothing was run"));
      };
}

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_AUTHORISER_H_
