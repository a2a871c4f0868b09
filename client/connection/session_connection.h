#ifndef IDEMPOTENCY_CLIENT_CONNECTION_SESSION_CONNECTION_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_SESSION_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "client/connection/deadline_timer.h"
#include "client/connection/deferred_actions.h"
#include "client/connection/open_streams.h"
#include "client/connection/outstanding_operation.h"
#include "client/connection/session_stream.h"
#include "client/connection/stream_state.h"
#include "client/connection/transport_error_reporter.h"
#include "client/connection/waiting_operations.h"
#include "core/application_log.h"
#include "core/backoff.h"
#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"
#include "grpc_idempotency/client/connection_factory.h"

namespace idempotency::internal {

// A Connection that sends operations over IdempotencyService.Session: operations
// requested while a frame is being written are sent in the next one. A lone operation
// is written at once, on the requesting thread.
//
// Like unary calls it is fail-fast: while the daemon cannot be reached,
// operations are answered STORE_UNAVAILABLE at once. When a stream breaks, its
// unanswered operations are sent again on another, with the same tokens, up to
// their deadlines; a Reserve without a request_token gets one, so that its
// repetition is recognised. A Reserve whose repetition gets a temporary refusal
// (OVERLOADED, for example) is answered STORE_UNAVAILABLE: the daemon may have
// granted what it received before. When a daemon drains, the connection leaves it
// without an error. It also leaves a daemon that gives no verdicts, for the next one of the
// channel: that daemon alone may have lost its store. With a daemon that has no Session method,
// operations are sent as unary calls.
//
// The first operation opens the first stream; nothing is sent before. Errors
// are those of MakeUnaryConnection(), and OVERLOADED (SessionConnectionOptions). An
// operation that is too large for any message is REQUEST_INVALID.
//
// Callbacks run on gRPC's threads, on the connection's own (passed deadlines),
// or within the call; those of one frame one after the other. Do not destroy
// the connection in one of them: its destructor waits for them.
//
// One lock guards it all and is taken once for each operation and each frame; every
// call to other code is an action, executed when the lock is free.
//
// Thread-safe.
class SessionConnection final : public Connection, private SessionStream::Events {
 public:
  // `unary` is used while the daemon has no Session method.
  SessionConnection(SessionStreamFactory streams, std::unique_ptr<Connection> unary,
                    SessionConnectionOptions options, const ApplicationLog& log = ApplicationLog());
  ~SessionConnection() override;

  void Send(AnyConnectionCall call, Deadline deadline) override;

 private:
  using Time = std::chrono::steady_clock::time_point;
  using Operation = std::unique_ptr<OutstandingOperation>;

  void Begin(Operation operation);

  void OnFrame(SessionStream& stream, v1::SessionResponse frame) override;
  void OnWritten(SessionStream& stream, bool ok) override;
  void OnReadEnd(SessionStream& stream) override;
  void OnEnd(SessionStream& stream, const grpc::Status& status) override;
  // Called by the timer: handles overdue operations. Returns the time of the next check.
  Time OnDeadline();

  // Sending: opens streams, and gives each writable stream the operations that
  // fit.
  void Pump(Time now, DeferredActions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenWantedStreams(Time now, DeferredActions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StreamState& OpenStream(DeferredActions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Gather(StreamState& state, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Run(DeferredActions& actions) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs actions with the callbacks of a frame, and sends the operations that
  // they request together.
  void RunTogether(DeferredActions& actions) ABSL_LOCKS_EXCLUDED(mutex_);

  // Begins the next read of a stream, or leaves it to the stream's next write.
  void ReadOn(StreamState& state, Time now, DeferredActions& actions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void BeginRead(StreamState& state, DeferredActions& actions);

  // Receiving. Returns the rule that the frame breaks, or nothing.
  std::string_view TakeFrame(StreamState& state, v1::SessionResponse& frame,
                             DeferredActions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string_view TakeAnswer(StreamState& state, v1::SessionAnswer& answer,
                              DeferredActions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where the stream's daemon gives no verdicts.
  void LeaveIfRefused(StreamState& state, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Establish(StreamState& state, const v1::SessionResponse& frame, DeferredActions& actions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseStream(StreamState& state, std::string_view rule, Time now, DeferredActions& actions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The end of a stream.
  void NoteFailedOpening(const grpc::Status& status, Time now, DeferredActions& actions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeBack(const StreamState& state, const grpc::Status& status, DeferredActions& actions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<OutstandingOperation*> UnansweredOn(const StreamState& state) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether another try would delay the waiting operations in vain.
  bool IsHopeless(const grpc::Status& status) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The parts of OnDeadline(). Each returns the time of its next run.
  Time FailExpired(Time now, DeferredActions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Time CancelOverdue(Time now, DeferredActions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Time BeginDeferredReads(Time now, DeferredActions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Time TrySessionAgain(Time now, DeferredActions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Out of those that are outstanding.
  Operation Remove(std::uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `connected`: the stream that ended with `status` had a connection.
  void FailWaiting(const grpc::Status& status, bool connected, DeferredActions& actions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DivertWaiting(DeferredActions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionStreamFactory make_stream_;
  const SessionConnectionOptions options_;
  const ApplicationLog log_;
  TransportErrorReporter transport_errors_;

  Mutex mutex_;
  CondVar stream_ended_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // While it is true operations are sent as unary calls.
  bool unary_only_ ABSL_GUARDED_BY(mutex_) = false;
  Time try_session_at_ ABSL_GUARDED_BY(mutex_) = Time::max();
  OpenStreams streams_ ABSL_GUARDED_BY(mutex_);
  // Streams whose end is being handled.
  int ending_ ABSL_GUARDED_BY(mutex_) = 0;
  // Streams in a row that ended before their first frame.
  int failed_openings_ ABSL_GUARDED_BY(mutex_) = 0;
  // While one stream works, others are not opened before this.
  Time next_stream_at_ ABSL_GUARDED_BY(mutex_) = Time::min();
  // A daemon without verdicts is not left before this.
  Time leave_at_ ABSL_GUARDED_BY(mutex_) = Time::min();
  // From then on the pauses between leaves begin with the first.
  Time quiet_at_ ABSL_GUARDED_BY(mutex_) = Time::min();
  Backoff leaves_ ABSL_GUARDED_BY(mutex_);
  Time next_warning_at_ ABSL_GUARDED_BY(mutex_) = Time::min();
  std::uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  // Waiting and sent.
  absl::flat_hash_map<std::uint64_t, Operation> operations_ ABSL_GUARDED_BY(mutex_);
  WaitingOperations waiting_ ABSL_GUARDED_BY(mutex_);

  DeadlineTimer timer_;
  // The last, so the first to be destroyed: its callbacks may still call this
  // object.
  const std::unique_ptr<Connection> unary_;
};

// Over `channel`, also for the unary calls.
std::unique_ptr<Connection> MakeSessionConnection(std::shared_ptr<grpc::Channel> channel,
                                                  SessionConnectionOptions options = {},
                                                  const ApplicationLog& log = ApplicationLog());

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_SESSION_CONNECTION_H_
