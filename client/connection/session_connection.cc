#include "client/connection/session_connection.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "client/connection/bad_frame.h"
#include "client/connection/caller_callback.h"
#include "client/connection/message_texts.h"
#include "client/connection/not_connected.h"
#include "client/connection/session_frame.h"
#include "client/connection/unary_connection.h"
#include "core/absl_view.h"
#include "core/retry_delays.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

using Clock = std::chrono::steady_clock;

// A larger frame gains nothing more, and delays the frames behind it.
constexpr std::size_t kFrameBytes = 256 * 1024;
// How often a stream may end before its first frame until every waiting
// operation fails. More than once, because a daemon that exits ends streams
// that have only just begun; gRPC refuses an impossible stream at once.
constexpr int kMaxFailedOpenings = 3;
// How often one operation is sent: it may be the one that breaks the streams.
constexpr int kMaxTimesSent = 8;
constexpr Clock::duration kPauseBetweenStreams = std::chrono::seconds(1);
// Answers without a verdict, one after the other, after which a stream is left. More than one: a
// locked row is not the daemon's fault. Few, since each may be the end of a caller's operation.
constexpr int kMaxRefusals = 3;
// Between two streams that are left. It grows until none was left for the longest pause: when all
// daemons have lost their store, the streams of all clients would only load them.
constexpr absl::Duration kFirstPauseBetweenLeaves = absl::Milliseconds(500);
constexpr absl::Duration kMaxPauseBetweenLeaves = absl::Seconds(10);
constexpr Clock::duration kPauseBetweenWarnings = std::chrono::seconds(10);
// Deadlines are kept to this.
constexpr Clock::duration kAlarmGrain = std::chrono::milliseconds(1);

const grpc::Status& Passed() {
  static const auto& status =
      *new grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "the deadline has passed");
  return status;
}

const grpc::Status& Closing() {
  static const auto& status =
      *new grpc::Status(grpc::StatusCode::CANCELLED, "the connection is being closed");
  return status;
}

absl::Status Overloaded() {
  return MakeError(Reason::kOverloaded,
                   "too many reservations wait for idempotencyd in this client: try again later",
                   RetryAfter(retry_delays::kClientOverloaded));
}

absl::Status TooLarge() {
  return InvalidField("session.operation",
                      absl::StrCat("is over the ", limits::kMaxMessageBytes,
                                   " bytes that idempotencyd accepts in one message"));
}

SessionFrame::Timeout TimeLeft(Clock::time_point deadline, Clock::time_point now) {
  if (deadline == Clock::time_point::max()) return std::nullopt;
  return std::max<Clock::duration>(deadline - now, kAlarmGrain);
}

// As STORE_UNAVAILABLE. Not a deadline that passed in the queue: the callers choose their
// deadlines.
bool IsWithoutVerdict(const v1::SessionError& error) {
  return StatusCodeFrom(error.code()) == grpc::StatusCode::UNAVAILABLE;
}

// The session whose frame of answers this thread handles. Operations that
// callers request in their callbacks are then sent in one frame, not the first
// by itself.
thread_local const SessionConnection* answering = nullptr;

// Sets `answering` for its lifetime.
class Answering {
 public:
  explicit Answering(const SessionConnection* session)
      : outer_(std::exchange(answering, session)) {}
  ~Answering() { answering = outer_; }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

 private:
  const SessionConnection* const outer_;
};

SessionConnectionOptions Bounded(SessionConnectionOptions options) {
  options.streams = std::clamp(options.streams, 1, SessionConnectionOptions::kMaxStreams);
  options.max_waiting = std::max<std::size_t>(options.max_waiting, 1);
  return options;
}

}  // namespace

SessionConnection::SessionConnection(SessionStreamFactory streams,
                                     std::unique_ptr<Connection> unary,
                                     SessionConnectionOptions options, const ApplicationLog& log)
    : make_stream_(std::move(streams)),
      options_(Bounded(options)),
      log_(log),
      transport_errors_(log),
      leaves_(kFirstPauseBetweenLeaves, kMaxPauseBetweenLeaves),
      timer_("session-timer", [this] { return OnDeadline(); }),
      unary_(std::move(unary)) {}

SessionConnection::~SessionConnection() {
  timer_.Stop();
  {
    DeferredActions actions;
    {
      MutexLock lock(mutex_);
      // From here on no operation is added or looked up.
      closing_ = true;
      for (auto& [id, operation] : operations_) {
        actions.Fail(std::move(operation), Closing());
      }
      operations_.clear();
      for (const auto& state : streams_) {
        BeginRead(*state, actions);
        actions.Cancel(state->stream());
      }
    }
    Run(actions);
  }
  MutexLock lock(mutex_);
  while (!streams_.empty() || ending_ > 0) stream_ended_.Wait(lock);
}

void SessionConnection::Send(AnyConnectionCall call, Deadline deadline) {
  std::visit(
      [this, deadline](auto& typed) {
        absl::Status valid = ValidateTexts(typed.request);
        if (!valid.ok()) {
          using Response = typename std::decay_t<decltype(typed)>::Response;
          return AnswerCaller<Response>(log_, typed.done, std::move(valid));
        }
        Begin(OutstandingOperation::Make(typed.request, deadline, std::move(typed.done), log_));
      },
      call);
}

void SessionConnection::Begin(Operation operation) {
  const Time now = Clock::now();
  DeferredActions actions;
  {
    MutexLock lock(mutex_);
    if (closing_) {
      actions.Fail(std::move(operation), Closing());
    } else if (operation->deadline <= now) {
      actions.Fail(std::move(operation), Passed());
    } else if (SessionFrame::Weight(operation->body.size()) > limits::kMaxMessageBytes) {
      actions.Fail(std::move(operation), TooLarge());
    } else if (unary_only_) {
      actions.SendBy(*unary_, std::move(operation));
    } else if (operation->limited && waiting_.limited() >= options_.max_waiting) {
      actions.Fail(std::move(operation), Overloaded());
    } else {
      operation->id = ++last_id_;
      timer_.NoLaterThan(operation->deadline);
      waiting_.Add(*operation);
      operations_.emplace(operation->id, std::move(operation));
      if (answering != this) Pump(now, actions);
    }
  }
  Run(actions);
}

void SessionConnection::Pump(Time now, DeferredActions& actions) {
  if (closing_) return;
  OpenWantedStreams(now, actions);
  for (StreamState* state : streams_.WritableByLoad()) {
    std::string frame = Gather(*state, now);
    if (!frame.empty()) {
      state->WriteBegins();
      actions.Write(*state->stream(), std::move(frame));
      BeginRead(*state, actions);
    } else if (state->BeginHalfClose(After(now, options_.silence_allowed))) {
      timer_.NoLaterThan(state->owed_until());
      actions.HalfClose(*state->stream());
    }
  }
}

void SessionConnection::OpenWantedStreams(Time now, DeferredActions& actions) {
  if (waiting_.empty() || unary_only_) return;
  // One that breaks before it was established: its end, which follows,
  // determines whether another is worth trying.
  if (streams_.AnyIsFailing()) return;
  const auto wanted = static_cast<std::size_t>(options_.streams);
  for (std::size_t usable = streams_.usable(); usable < wanted; ++usable) {
    if (usable > 0 && now < next_stream_at_) return;
    OpenStream(actions);
  }
}

StreamState& SessionConnection::OpenStream(DeferredActions& actions) {
  StreamState& state = streams_.Add(make_stream_(*this));
  actions.Start(*state.stream());
  return state;
}

std::string SessionConnection::Gather(StreamState& state, Time now) {
  const std::size_t most = std::min(state.max_frame_bytes(), kFrameBytes);
  SessionFrame frame;
  std::size_t operations = 0;
  for (const std::uint64_t id : state.TakeCancels()) {
    frame.AddCancel(id);
    ++operations;
  }
  for (; state.usable() && operations < state.max_frame_operations(); ++operations) {
    OutstandingOperation* const next = waiting_.First(state.has_room());
    if (next == nullptr) break;
    const std::size_t weight = SessionFrame::Weight(next->body.size());
    if (frame.empty()) {
      frame.Reserve(std::max(weight, std::min(weight * waiting_.size(), most)));
    } else if (frame.size() + weight > most || next->alone) {
      break;
    }
    waiting_.RemoveFirst(*next);
    state.Add(*next);
    next->frame = state.next_frame();
    frame.Add(next->id, TimeLeft(next->deadline, now), next->body);
    if (next->alone) break;
  }
  return std::move(frame).Take();
}

void SessionConnection::OnFrame(SessionStream& stream, v1::SessionResponse frame) {
  const Time now = Clock::now();
  DeferredActions actions;
  {
    MutexLock lock(mutex_);
    StreamState& state = streams_.Of(stream);
    state.ReadEnds();
    if (!closing_) {
      const std::string_view rule = TakeFrame(state, frame, actions);
      if (!rule.empty()) CloseStream(state, rule, now, actions);
      LeaveIfRefused(state, now);
      Pump(now, actions);
    }
    // It begins before the callbacks, so that they do not delay the next frame.
    ReadOn(state, now, actions);
    if (state.BeginRelease()) actions.Release(stream);
  }
  RunTogether(actions);
}

void SessionConnection::ReadOn(StreamState& state, Time now, DeferredActions& actions) {
  // A read that begins now sends a packet that only extends the window. The next write
  // carries that along if the read begins behind it.
  if (closing_ || !state.usable() || state.unanswered() > 0) return BeginRead(state, actions);
  state.DeferRead(After(now, options_.max_read_delay));
  timer_.NoLaterThan(state.read_by());
}

void SessionConnection::BeginRead(StreamState& state, DeferredActions& actions) {
  if (state.BeginRead()) actions.Read(*state.stream());
}

void SessionConnection::Run(DeferredActions& actions) {
  // The last callback may destroy this, unless a stream's event has reported something.
  const bool reports = actions.reports();
  actions.Run();
  if (reports) actions.Log(transport_errors_, log_);
}

void SessionConnection::RunTogether(DeferredActions& actions) {
  {
    const Answering together(this);
    actions.Run();
  }
  DeferredActions requested;
  {
    MutexLock lock(mutex_);
    Pump(Clock::now(), requested);
  }
  requested.Run();
  actions.Log(transport_errors_, log_);
}

std::string_view SessionConnection::TakeFrame(StreamState& state, v1::SessionResponse& frame,
                                              DeferredActions& actions) {
  state.OnServerActivity();
  actions.ReportAnswer();
  if (!state.established()) {
    if (frame.limits().max_in_flight() == 0 || frame.limits().max_frame_bytes() == 0) {
      return "its first frame contains no limits";
    }
    Establish(state, frame, actions);
  }
  if (frame.draining()) state.Drain();
  for (v1::SessionAnswer& answer : *frame.mutable_answers()) {
    const std::string_view rule = TakeAnswer(state, answer, actions);
    if (!rule.empty()) return rule;
  }
  return {};
}

std::string_view SessionConnection::TakeAnswer(StreamState& state, v1::SessionAnswer& answer,
                                               DeferredActions& actions) {
  if (!answer.has_error()) {
    state.ClearRefusals();
  } else if (IsWithoutVerdict(answer.error())) {
    state.CountRefusal();
  }
  const auto found = operations_.find(answer.id());
  if (found == operations_.end() || found->second->state != &state) {
    if (state.SettleAbandoned(answer.id())) return {};
    return "it answered an operation that was not sent or was answered before";
  }
  Operation& operation = found->second;
  if (!answer.has_error() && !operation->IsAnswer(answer)) {
    return "its response is not of the operation's kind";
  }
  state.Settle(*operation);
  actions.Answer(std::move(operation), answer);
  operations_.erase(found);
  return {};
}

// round_robin puts the next stream on another daemon, if the channel is connected to one.
// Unanswered operations keep the old stream.
void SessionConnection::LeaveIfRefused(StreamState& state, Time now) {
  if (state.refusals() < kMaxRefusals || !state.usable() || now < leave_at_) return;
  // Those that were left may wait for their last answers as long as a waiter.
  const auto most = 2 * static_cast<std::size_t>(options_.streams);
  if (streams_.size() >= most) return;
  // Not after a verdict: some operations get one without the store.
  if (now >= quiet_at_) leaves_.Reset();
  state.Drain();
  leave_at_ = now + absl::ToChronoNanoseconds(leaves_.Next());
  quiet_at_ = leave_at_ + absl::ToChronoNanoseconds(kMaxPauseBetweenLeaves);
}

void SessionConnection::Establish(StreamState& state, const v1::SessionResponse& frame,
                                  DeferredActions& actions) {
  state.Establish(frame.limits());
  if (!frame.draining()) failed_openings_ = 0;
  if (unary_only_) {
    unary_only_ = false;
    try_session_at_ = Time::max();
    actions.LogLine(LogSeverity::kInfo,
                    "idempotencyd supports sessions now: unary calls are no longer used");
  }
}

void SessionConnection::CloseStream(StreamState& state, std::string_view rule, Time now,
                                    DeferredActions& actions) {
  state.Break();
  state.EndReading();
  actions.Cancel(state.stream());
  if (now < next_warning_at_) return;
  next_warning_at_ = now + kPauseBetweenWarnings;
  actions.LogLine(LogSeverity::kError,
                  absl::StrCat("idempotencyd violated the session protocol: ", AbslView(rule),
                               "; outstanding operations are sent again"));
}

void SessionConnection::OnWritten(SessionStream& stream, bool ok) {
  DeferredActions actions;
  {
    MutexLock lock(mutex_);
    StreamState& state = streams_.Of(stream);
    state.WriteEnds();
    if (!ok) {
      state.Break();
      BeginRead(state, actions);
    }
    Pump(Clock::now(), actions);
    if (state.BeginRelease()) actions.Release(stream);
  }
  Run(actions);
}

void SessionConnection::OnReadEnd(SessionStream& stream) {
  DeferredActions actions;
  {
    MutexLock lock(mutex_);
    StreamState& state = streams_.Of(stream);
    state.Break();
    state.EndReading();
    if (state.BeginRelease()) actions.Release(stream);
  }
  Run(actions);
}

void SessionConnection::OnEnd(SessionStream& stream, const grpc::Status& status) {
  const Time now = Clock::now();
  std::unique_ptr<StreamState> ended;
  DeferredActions actions;
  {
    MutexLock lock(mutex_);
    ended = streams_.Remove(stream);
    ++ending_;
    if (!closing_) {
      TakeBack(*ended, status, actions);
      // The operations that cannot be sent were removed: the others can be
      // sent.
      if (!ended->established() && !IsOverSendLimit(status)) {
        NoteFailedOpening(status, now, actions);
        if (unary_only_) DivertWaiting(actions);
        if (IsHopeless(status)) {
          FailWaiting(EndForOthers(status), stream.had_connection(), actions);
        }
      }
      Pump(now, actions);
    }
  }
  Run(actions);
  // Before it counts as ended: the rest of the call holds the channel, and a
  // thread of gRPC must not be its last holder.
  ended.reset();
  MutexLock lock(mutex_);
  --ending_;
  stream_ended_.NotifyAll();
}

void SessionConnection::NoteFailedOpening(const grpc::Status& status, Time now,
                                          DeferredActions& actions) {
  const bool no_session = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
  next_stream_at_ =
      no_session ? After(now, options_.retry_session_after) : now + kPauseBetweenStreams;
  if (!no_session) ++failed_openings_;
  if (no_session && !streams_.AnyEstablished() && !unary_only_) {
    unary_only_ = true;
    actions.LogLine(LogSeverity::kInfo,
                    "idempotencyd does not support sessions: using unary calls");
  }
  if (unary_only_) {
    try_session_at_ = After(now, options_.retry_session_after);
    timer_.NoLaterThan(try_session_at_);
  }
}

void SessionConnection::TakeBack(const StreamState& state, const grpc::Status& status,
                                 DeferredActions& actions) {
  const std::vector<OutstandingOperation*> unanswered = UnansweredOn(state);
  const absl::Status error = IsolateBadFrame(status, unanswered);
  std::vector<OutstandingOperation*> again;
  for (OutstandingOperation* operation : unanswered) {
    operation->state = nullptr;
    if (state.stream()->had_connection()) operation->maybe_sent = true;
    if (operation->refused) {
      actions.Fail(Remove(operation->id), error);
    } else if (operation->times_sent >= kMaxTimesSent) {
      actions.ReportFailure(EndForOthers(status));
      actions.Fail(Remove(operation->id), EndForOthers(status));
    } else {
      again.push_back(operation);
    }
  }
  waiting_.PutBack(again);
}

std::vector<OutstandingOperation*> SessionConnection::UnansweredOn(const StreamState& state) const {
  std::vector<OutstandingOperation*> unanswered;
  for (const auto& [id, operation] : operations_) {
    if (operation->state == &state) unanswered.push_back(operation.get());
  }
  std::sort(unanswered.begin(), unanswered.end(),
            [](const auto* a, const auto* b) { return a->id < b->id; });
  return unanswered;
}

bool SessionConnection::IsHopeless(const grpc::Status& status) const {
  if (waiting_.empty() || streams_.usable() > 0) return false;
  // A refusal stays one for any number of requests. A daemon answers CANCELLED to a
  // call that arrives while it ends.
  const grpc::StatusCode code = EndForOthers(status).error_code();
  const bool may_pass =
      code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::CANCELLED;
  return !may_pass || failed_openings_ >= kMaxFailedOpenings;
}

SessionConnection::Time SessionConnection::OnDeadline() {
  const Time now = Clock::now();
  DeferredActions actions;
  Time next;
  {
    MutexLock lock(mutex_);
    next = FailExpired(now, actions);
    next = std::min(next, CancelOverdue(now, actions));
    next = std::min(next, BeginDeferredReads(now, actions));
    next = std::min(next, TrySessionAgain(now, actions));
    Pump(now, actions);
  }
  Run(actions);
  return std::max(next, now + kAlarmGrain);
}

SessionConnection::Time SessionConnection::FailExpired(Time now, DeferredActions& actions) {
  Time next = Time::max();
  waiting_.RemoveExpired(now);
  for (auto at = operations_.begin(); at != operations_.end();) {
    const auto current = at++;
    OutstandingOperation& operation = *current->second;
    if (operation.deadline > now) {
      next = std::min(next, operation.deadline);
      continue;
    }
    if (operation.state != nullptr) {
      operation.state->Abandon(operation, After(now, options_.silence_allowed));
    }
    actions.Fail(std::move(current->second), Passed());
    operations_.erase(current);
  }
  return next;
}

SessionConnection::Time SessionConnection::CancelOverdue(Time now, DeferredActions& actions) {
  Time next = Time::max();
  for (const auto& state : streams_) {
    if (state->owed_until() > now) {
      next = std::min(next, state->owed_until());
      continue;
    }
    state->OnServerActivity();
    state->Break();
    BeginRead(*state, actions);
    actions.Cancel(state->stream());
  }
  return next;
}

SessionConnection::Time SessionConnection::BeginDeferredReads(Time now, DeferredActions& actions) {
  Time next = Time::max();
  for (const auto& state : streams_) {
    if (state->read_by() <= now) BeginRead(*state, actions);
    next = std::min(next, state->read_by());
  }
  return next;
}

SessionConnection::Time SessionConnection::TrySessionAgain(Time now, DeferredActions& actions) {
  if (now < try_session_at_) return try_session_at_;
  // Its end, if it fails, names the next time.
  try_session_at_ = Time::max();
  StreamState& state = OpenStream(actions);
  // No operation's deadline would end it.
  state.Owe(After(now, options_.silence_allowed));
  return state.owed_until();
}

SessionConnection::Operation SessionConnection::Remove(std::uint64_t id) {
  const auto found = operations_.find(id);
  Operation operation = std::move(found->second);
  operations_.erase(found);
  return operation;
}

void SessionConnection::FailWaiting(const grpc::Status& status, bool connected,
                                    DeferredActions& actions) {
  actions.ReportFailure(status);
  while (const OutstandingOperation* next = waiting_.First(/*limited_too=*/true)) {
    waiting_.RemoveFirst(*next);
    if (connected || next->maybe_sent) {
      actions.Fail(Remove(next->id), status);
    } else {
      actions.Fail(Remove(next->id), NotConnected());
    }
  }
}

void SessionConnection::DivertWaiting(DeferredActions& actions) {
  while (const OutstandingOperation* next = waiting_.First(/*limited_too=*/true)) {
    waiting_.RemoveFirst(*next);
    actions.SendBy(*unary_, Remove(next->id));
  }
}

std::unique_ptr<Connection> MakeSessionConnection(std::shared_ptr<grpc::Channel> channel,
                                                  SessionConnectionOptions options,
                                                  const ApplicationLog& log) {
  auto streams = SessionStreamsOver(channel);
  return std::make_unique<SessionConnection>(
      std::move(streams), MakeUnaryConnection(std::move(channel), log), options, log);
}

}  // namespace idempotency::internal
