#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_SETTLEMENT_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_SETTLEMENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "idempotency/v1/record.pb.h"
#include "interceptors/server/disposition.h"
#include "interceptors/server/live_execution.h"

namespace idempotency {

// The way out of an execution: what becomes of its reservation once its
// handler has answered, by the operation's policy, and what its caller gets.
class Settlement : public std::enable_shared_from_this<Settlement> {
 public:
  struct Outcome {
    // OK: the caller gets the handler's reply. Anything else goes out in its
    // place, and nothing of the reply.
    absl::Status error;
    // When the record is forgotten; InfinitePast if there is no reply in it.
    absl::Time expires_at = absl::InfinitePast();
  };
  // Called once, on any thread, possibly inside Settle; must not block.
  using Done = std::function<void(const Outcome&)>;

  // Once per execution.
  static void Settle(std::shared_ptr<LiveExecution> execution, v1::Reply reply, Done done);
  // The same for an execution whose owner says that nothing happened: whatever
  // the policy, the next attempt may run. `reason` is kept with the record.
  static void GiveBack(std::shared_ptr<LiveExecution> execution, std::string reason, Done done);

 private:
  Settlement(std::shared_ptr<LiveExecution> execution, v1::Reply reply, Done done);

  static std::shared_ptr<Settlement> Make(std::shared_ptr<LiveExecution> execution, v1::Reply reply,
                                          Done done);

  void Start();
  void Finish(const Outcome& outcome);
  void Complete();
  void Release(v1::ReleaseOutcome outcome);
  // RESERVATION_LOST if the store has said that the record is another's.
  absl::Status LossIfRefused() const;
  // Leaves an outcome that nobody knows to the background, if it recovers.
  void LeaveOpen();
  void OnCompleted(const absl::StatusOr<v1::CompleteResponse>& answer);

  const std::shared_ptr<LiveExecution> execution_;
  const Done done_;
  const grpc::StatusCode code_;
  const Disposition disposition_;
  v1::Reply reply_;
  // Of a release; "": what the handler answered.
  std::string release_reason_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_SETTLEMENT_H_
