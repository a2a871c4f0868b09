#include "server/queue/record_schedule.h"

namespace idempotency::internal {

void RecordSchedule::FollowAttempt(const InFlight& in_flight, SteadyTime now,
                                   absl::Duration first) {
  if (attempt_ != in_flight.attempt || paused_ != in_flight.paused) {
    pause_ = first;
    next_read_ = now + absl::ToChronoNanoseconds(pause_);
  }
  attempt_ = in_flight.attempt;
  paused_ = in_flight.paused;
  lease_end_ = now + absl::ToChronoNanoseconds(std::max(in_flight.lease_remaining, kShortestLease));
}

void RecordSchedule::ReadLater(SteadyTime now, double jitter, absl::Duration longest) {
  next_read_ = now + absl::ToChronoNanoseconds(pause_ * jitter);
  pause_ = std::min(pause_ * 2, longest);
}

bool RecordSchedule::IsHeldIn(const Record& record) const {
  const RecordState held = paused_ ? RecordState::kReleased : RecordState::kReserved;
  return record.state == held && record.attempt == attempt_;
}

InFlight RecordSchedule::StillInFlight(SteadyTime now) const {
  const absl::Duration left = absl::FromChrono(lease_end_ - now);
  return InFlight{std::max(left, absl::ZeroDuration()), attempt_, paused_};
}

}  // namespace idempotency::internal
