#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_RECOVERY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_RECOVERY_H_

#include <functional>
#include <memory>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"

#include "core/pass_key.h"
#include "grpc_idempotency/server_guard/recovery_handler.h"
#include "idempotency/v1/record.pb.h"
#include "interceptors/server/execution/live_execution.h"

namespace idempotency::internal {

// One run of a recovery handler, from a grant that recovers to the settlement of its decision.
class Recovery final : public std::enable_shared_from_this<Recovery> {
 public:
  // The store has acknowledged the completion, or `unrecorded`: as Settlement::Outcome's.
  struct Completed {
    v1::Reply reply;
    absl::Time expires_at;
    absl::Status unrecorded = absl::OkStatus();
  };
  // The reservation is still held.
  struct NoEffect {};
  // Not settled, for this reason: OUTCOME_UNKNOWN, RESERVATION_LOST, OUTCOME_NOT_RECORDED, or
  // OVERLOADED if too many recoveries wait.
  struct Open {
    absl::Status why;
  };
  using Result = std::variant<Completed, NoEffect, Open>;
  // Called once, on any thread, possibly inside Run; must not block.
  using Done = std::function<void(Result)>;

  // `request` is nullptr, or valid until `done` is called.
  static void Run(std::shared_ptr<LiveExecution> execution,
                  const google::protobuf::Message* request, Done done);

  // For Run() alone.
  Recovery(PassKey<Recovery> key, std::shared_ptr<LiveExecution> execution,
           const google::protobuf::Message* request, Done done);

 private:
  void Start();
  RecoveryDecision Decide();
  void Settle(const RecoveryDecision& decision);
  void Complete(const RecoveryDecision& decision);
  // Another attempt may have the record: this one does nothing.
  void GiveWay();
  // The caller gets `why`.
  void LeaveUnknown(const absl::Status& why);
  // Rejects exceptions and invalid decisions of the application's handler.
  absl::Status WhyNotRecordable(const RecoveryDecision& decision) const;

  const std::shared_ptr<LiveExecution> execution_;
  const google::protobuf::Message* const request_;
  const Done done_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_ADMISSION_RECOVERY_H_
