#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_CALL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

#include "interceptors/server/execution.h"
#include "interceptors/server/recording.h"

namespace idempotency {

class GuardedMethod;
class Reservations;

// One call of a guarded method: where its gate and its interceptor meet.
//
// The gate writes it before the handler runs or an answer is sent, the handler
// and the interceptor read it afterwards; in between gRPC hands the call over
// with a lock. Only NothingHappened() comes at any time.
class GuardedCall final : public Execution {
 public:
  // Which method it is of is known only at its gate: the same path may be
  // served on several hosts. Until then it belongs to a guard, which is told
  // from others by its reservations.
  explicit GuardedCall(const Reservations& guard) : guard_(guard) {}

  bool IsOf(const Reservations& guard) const { return &guard_ == &guard; }

  // The handler of `method` will run, under this reservation.
  void Begin(const GuardedMethod& method, std::shared_ptr<Recording> recording,
             std::uint32_t attempt, std::string record_id, absl::Time expires_at) {
    method_ = &method;
    attempt_ = attempt;
    record_id_ = std::move(record_id);
    expires_at_ = expires_at;
    recording_ = std::move(recording);
  }
  // It will not after all.
  std::shared_ptr<Recording> Withdraw() { return std::move(recording_); }
  // nullptr unless the handler runs under a reservation.
  const std::shared_ptr<Recording>& recording() const { return recording_; }
  // Once there has been a recording.
  const GuardedMethod& method() const { return *method_; }

  // The stored reply was OK and had no message: none is to be sent.
  void OmitMessage() { omit_message_ = true; }
  bool omits_message() const { return omit_message_; }

  bool nothing_happened() const { return nothing_happened_.load(std::memory_order_acquire); }
  // When the record is forgotten, as known at its reservation.
  absl::Time expires_at() const { return expires_at_; }

  std::uint32_t attempt() const override { return attempt_; }
  const std::string& record_id() const override { return record_id_; }
  bool lost() const override { return recording_ != nullptr && recording_->lost(); }
  void NothingHappened() override { nothing_happened_.store(true, std::memory_order_release); }

 private:
  const Reservations& guard_;
  const GuardedMethod* method_ = nullptr;
  std::shared_ptr<Recording> recording_;
  std::uint32_t attempt_ = 0;
  std::string record_id_;
  absl::Time expires_at_ = absl::InfinitePast();
  bool omit_message_ = false;
  std::atomic<bool> nothing_happened_{false};
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_GUARDED_CALL_H_
