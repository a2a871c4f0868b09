#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_REPLAYED_REPLY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_REPLAYED_REPLY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/map.h"

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/execution/guarded_operation.h"
#include "interceptors/server/wire/sent_reply.h"

namespace idempotency::internal {

// Makes a retry's reply from a stored reply.
//
// Its trailing metadata identifies the record. If it is not the complete first reply,
// `idempotency-content` is
//   redacted     fields are left out
//   reference    read by the method's loader
//   status-only  the status of an error, without details, messages, metadata
// An OK with only its status kept cannot be replayed: REPLY_NOT_KEPT.
class ReplayedReply {
 public:
  struct Stored {
    std::shared_ptr<const v1::Reply> reply;
    std::string record_id;
    absl::Time expires_at;
    // The traceparent of the attempt that ran first; "" if it had none.
    std::string traceparent;
  };
  // Called once, on any thread, possibly inside Make; must not block.
  using Done = std::function<void(absl::StatusOr<SentReply>)>;

  // Fails with
  //   REPLY_NOT_KEPT     nothing runs again; the original code is in the details
  //   STORE_UNAVAILABLE  the loader failed, or the guard has closed
  //   OVERLOADED         too many replies wait to be loaded
  static void Make(std::shared_ptr<const GuardedOperation> operation, Stored stored, Done done);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_REPLAYED_REPLY_H_
