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

namespace idempotency::internal {

// From a stored reply to what a retry gets.
//
// It tells of its record in trailing metadata, and where it is not the whole
// first reply it says so there (`idempotency-content`):
//   redacted     fields are left out
//   reference    read anew by the method's loader
//   status-only  the status of an error, without details, messages, metadata
// An OK of which only the status was kept is no reply: REPLY_NOT_KEPT.
class ReplayedReply {
 public:
  struct Stored {
    v1::Reply reply;
    std::string record_id;
    absl::Time expires_at;
    // Of the attempt that ran first; "" if it had none.
    std::string traceparent;
  };
  // Called once, on any thread, possibly inside Make; must not block.
  using Done = std::function<void(absl::StatusOr<v1::Reply>)>;

  // Fails with
  //   REPLY_NOT_KEPT     nothing runs again; the original code is in the details
  //   STORE_UNAVAILABLE  the loader failed, or the guard has closed
  //   OVERLOADED         too many replies wait to be loaded
  static void Make(std::shared_ptr<const GuardedOperation> operation, Stored stored, Done done);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_REPLAYED_REPLY_H_
