#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_METHOD_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_METHOD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "interceptors/server/admission/admission.h"
#include "interceptors/server/call/guarded_call.h"
#include "interceptors/server/call/pending_call.h"
#include "interceptors/server/execution/guarded_operation.h"
#include "interceptors/server/request/request_identity.h"

namespace idempotency::internal {

// One guarded method: requests a verdict for each of its calls and acts on it. Thread-safe.
class GuardedMethod final : public CallAdmitter {
 public:
  GuardedMethod(RequestIdentity identity, GuardedOperation operation);

  void Admit(std::shared_ptr<PendingCall> pending) override;

  // The operation of its records.
  const std::string& operation() const { return operation_->name; }
  // With its settings.
  const GuardedOperation& guarded_operation() const { return *operation_; }

  // Calls that ran unguarded because there was no verdict.
  std::uint64_t calls_failed_open() const {
    return calls_failed_open_.load(std::memory_order_relaxed);
  }

 private:
  // A call together with its entry from the interceptor.
  struct Call {
    std::shared_ptr<PendingCall> pending;
    std::shared_ptr<GuardedCall> guarded;
    // On the clock of the reservations.
    Scheduler::Time callers_deadline;
    // nullptr unless its policy has fail_open.
    std::shared_ptr<UnguardedRun> unguarded;
  };

  absl::StatusOr<std::shared_ptr<v1::ReserveRequest>> ReserveRequestFor(PendingCall& pending,
                                                                        std::string key) const;
  absl::StatusOr<std::string> ScopeOf(const grpc::ServerContextBase& context) const;
  Scheduler::Time CallersDeadline(const grpc::ServerContextBase& context) const;
  // The wait for a verdict was ended by the caller's deadline, not by the guard's: the store may
  // have been about to answer, and another attempt may run.
  bool EndedByCaller(const Call& call) const;

  void Act(const Call& call, Admission::Decision decision);
  static void Run(const Call& call, std::shared_ptr<LiveExecution> execution);
  // Its policy permits calls without a key.
  void RunWithoutKey(const Call& call);
  void RunUnguarded(const Call& call);
  void Replay(const Call& call, SentReply reply);

  const RequestIdentity identity_;
  const std::shared_ptr<const GuardedOperation> operation_;
  std::atomic<std::uint64_t> calls_failed_open_{0};
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_CALL_GUARDED_METHOD_H_
