#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_METHOD_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_METHOD_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "interceptors/server/guard_options.h"
#include "interceptors/server/guarded_call.h"
#include "interceptors/server/held_call.h"
#include "interceptors/server/reservations.h"

namespace idempotency {

// One guarded method: asks for a verdict on each of its calls and acts on it.
// Thread-safe.
class GuardedMethod final : public CallGate {
 public:
  // `path` is gRPC's name of the method, "/payments.v1.Payments/Charge";
  // `operation` is what its records are kept under, which is more than the path
  // for a service on a host of its own. `options` and `reservations` outlive it.
  GuardedMethod(std::string path, std::string operation, MethodPolicy policy,
                const GuardOptions& options, Reservations& reservations);

  void Admit(std::shared_ptr<HeldCall> held) override;

  const std::string& operation() const { return operation_; }
  const MethodPolicy& policy() const { return policy_; }
  std::size_t max_reply_bytes() const { return options_.max_reply_bytes; }

 private:
  // A call together with what the interceptor knows of it.
  struct Call {
    std::shared_ptr<HeldCall> held;
    std::shared_ptr<GuardedCall> guarded;
  };

  absl::StatusOr<v1::ReserveRequest> MakeRequest(HeldCall& held, std::string key) const;
  absl::StatusOr<std::string> ScopeOf(const grpc::ServerContextBase& context) const;
  Scheduler::Time VerdictDeadline(const grpc::ServerContextBase& context) const;
  absl::Duration MaxWait() const;

  void OnVerdict(const Call& call, const v1::RecordKey& record_key,
                 const absl::StatusOr<ReservationAnswer>& answer) const;
  void Run(const Call& call, const v1::RecordKey& record_key,
           const ReservationAnswer& answer) const;
  void Replay(const Call& call, const v1::ReserveResponse& verdict) const;

  const std::string path_;
  const std::string operation_;
  const MethodPolicy policy_;
  const GuardOptions& options_;
  Reservations& reservations_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_METHOD_H_
