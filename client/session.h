#ifndef IDEMPOTENCY_CLIENT_SESSION_H_
#define IDEMPOTENCY_CLIENT_SESSION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"

#include "client/alarm_thread.h"
#include "client/outstanding_operation.h"
#include "client/reachability.h"
#include "client/session_connection.h"
#include "client/session_errands.h"
#include "client/session_lane.h"
#include "client/session_link.h"
#include "client/waiting_operations.h"
#include "core/application_log.h"
#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal {

// What MakeSessionConnection() promises, over any streams: keeps lanes open,
// fills their frames, sends again what a lost one leaves open. One lock guards
// it all and is taken once for each operation and each frame; whatever leads
// out of here is an errand, done when the lock is free.
//
// Thread-safe.
class Session final : public Connection, private SessionLink::Events {
 public:
  // `unary` serves while the daemon has no Session.
  Session(SessionLinkFactory streams, std::unique_ptr<Connection> unary,
          SessionConnectionOptions options, const ApplicationLog& log = ApplicationLog());
  ~Session() override;

  void Reserve(const v1::ReserveRequest& request, Deadline deadline,
               Callback<v1::ReserveResponse> done) override;
  void Complete(const v1::CompleteRequest& request, Deadline deadline,
                Callback<v1::CompleteResponse> done) override;
  void Release(const v1::ReleaseRequest& request, Deadline deadline,
               Callback<v1::ReleaseResponse> done) override;
  void Extend(const v1::ExtendRequest& request, Deadline deadline,
              Callback<v1::ExtendResponse> done) override;
  void Get(const v1::GetRequest& request, Deadline deadline,
           Callback<v1::GetResponse> done) override;

 private:
  using Time = std::chrono::steady_clock::time_point;
  using Operation = std::unique_ptr<OutstandingOperation>;
  using Lanes = absl::InlinedVector<SessionLane*, 4>;

  void Begin(Operation operation);

  void OnFrame(SessionLink& stream, v1::SessionResponse frame) override;
  void OnWritten(SessionLink& stream, bool ok) override;
  void OnReadEnd(SessionLink& stream) override;
  void OnEnd(SessionLink& stream, const grpc::Status& status) override;
  // The alarm: what is overdue? Answers when to look again.
  Time Ring();

  // Out: opens lanes, and gives every one that can write what it can carry.
  void Pump(Time now, SessionErrands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenLanes(Time now, SessionErrands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenLane(SessionErrands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Lanes LanesByLoad() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Gather(SessionLane& lane, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Runs errands with the callbacks of a frame, and sends what they ask for
  // together.
  void RunTogether(SessionErrands& errands) ABSL_LOCKS_EXCLUDED(mutex_);

  // In. Answers the rule that the frame breaks, or nothing.
  std::string_view TakeFrame(SessionLane& lane, v1::SessionResponse& frame, SessionErrands& errands)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string_view TakeAnswer(SessionLane& lane, v1::SessionAnswer& answer, SessionErrands& errands)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Establish(SessionLane& lane, const v1::SessionResponse& frame)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Expel(SessionLane& lane, std::string_view rule, Time now, SessionErrands& errands)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A lane's end.
  void NoteFailedOpening(const grpc::Status& status, Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeBack(const SessionLane& lane, const grpc::Status& status, SessionErrands& errands)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<OutstandingOperation*> UnansweredOn(const SessionLane& lane) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a frame that cannot be sent, or that the server refused as a whole: sends its
  // operations one by one, and refuses the one that was alone, so that no other caller
  // is affected. What was in other frames has lost nothing but time.
  static void SetCulpritsApart(const std::vector<OutstandingOperation*>& unanswered,
                               std::uint64_t bad_frame);
  // Whether another try would keep the waiting waiting for nothing.
  bool IsHopeless(const grpc::Status& status) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The alarm's parts. Each answers when it is needed next.
  Time FailExpired(Time now, SessionErrands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Time CancelOverdue(Time now, SessionErrands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Time TrySessionAgain(Time now, SessionErrands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SessionLane& LaneOf(const SessionLink& stream) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<SessionLane> RemoveLane(const SessionLink& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::size_t usable_lanes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Out of those that are outstanding.
  Operation Remove(std::uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `connected`: the stream that ended with `status` had a connection.
  void FailWaiting(const grpc::Status& status, bool connected, SessionErrands& errands)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DivertWaiting(SessionErrands& errands) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionLinkFactory make_stream_;
  const SessionConnectionOptions options_;
  const ApplicationLog log_;
  Reachability reachability_;

  Mutex mutex_;
  CondVar lane_ended_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // While it is true operations take the unary way.
  bool unary_only_ ABSL_GUARDED_BY(mutex_) = false;
  Time try_session_at_ ABSL_GUARDED_BY(mutex_) = Time::max();
  std::vector<std::unique_ptr<SessionLane>> lanes_ ABSL_GUARDED_BY(mutex_);
  // Lanes whose end is being dealt with.
  int ending_ ABSL_GUARDED_BY(mutex_) = 0;
  // Streams in a row that ended before their first frame.
  int failed_openings_ ABSL_GUARDED_BY(mutex_) = 0;
  // While one lane works, others are not tried before this.
  Time next_lane_at_ ABSL_GUARDED_BY(mutex_) = Time::min();
  Time next_complaint_at_ ABSL_GUARDED_BY(mutex_) = Time::min();
  std::uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  // Waiting and sent.
  absl::flat_hash_map<std::uint64_t, Operation> operations_ ABSL_GUARDED_BY(mutex_);
  WaitingOperations waiting_ ABSL_GUARDED_BY(mutex_);

  AlarmThread alarm_;
  // The last, so the first to be destroyed: its callbacks may still ask here.
  const std::unique_ptr<Connection> unary_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SESSION_H_
