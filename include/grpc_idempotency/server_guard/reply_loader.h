#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_REPLY_LOADER_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_REPLY_LOADER_H_

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "idempotency/v1/record.pb.h"

namespace idempotency {

// Makes the reply of an operation that has run, from the reference that its handler set with
// Execution::SetReference. It reads the object's present state, also if that has changed since.
// `reply` is an empty message of the method's reply type.
//   OK         the caller gets `reply`
//   NOT_FOUND  the object no longer exists: the caller gets REPLY_NOT_KEPT
//   any other  the object cannot be read now: the caller gets STORE_UNAVAILABLE and may retry
// Called on one of the guard's worker threads, several at once; it may block, but must bound
// its own waits. An exception counts as a failure.
using ReplyLoader =
    std::function<absl::Status(const v1::Reference& reference, google::protobuf::Message& reply)>;

// The same for a reply of a known type. A method of another reply type gets INTERNAL from the
// loader, so that its callers get STORE_UNAVAILABLE.
template <typename Reply>
ReplyLoader LoadReply(std::function<absl::Status(const v1::Reference&, Reply&)> load) {
  return
      [load = std::move(load)](const v1::Reference& reference, google::protobuf::Message& reply) {
        if (reply.GetDescriptor() != Reply::descriptor()) {
          return absl::InternalError("the loader is for another reply type");
        }
        return load(reference, static_cast<Reply&>(reply));
      };
}

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_REPLY_LOADER_H_
