#include "client/session.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "client/not_connected.h"
#include "client/session_frame.h"
#include "core/absl_view.h"
#include "core/answer_kind.h"
#include "core/message_texts.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

using Clock = std::chrono::steady_clock;

// A frame over this gains nothing more, and keeps those behind it waiting.
constexpr std::size_t kFrameBytes = 256 * 1024;
// How often a stream may end before its first frame until everybody who waits
// is told. More than once, because a daemon that ends takes streams with it
// that have only just begun; gRPC refuses at once what cannot work.
constexpr int kMaxFailedOpenings = 3;
// How often one operation is sent: it may be the one that breaks the streams.
constexpr int kMaxTimesSent = 8;
constexpr Clock::duration kPauseBetweenLanes = std::chrono::seconds(1);
constexpr Clock::duration kPauseBetweenComplaints = std::chrono::seconds(10);
// Deadlines are kept to this.
constexpr Clock::duration kAlarmGrain = std::chrono::milliseconds(1);
constexpr absl::Duration kOverloadedDelay = absl::Milliseconds(100);

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
  ErrorDetails details;
  details.retry_delay = kOverloadedDelay;
  return MakeError(Reason::kOverloaded,
                   "too many reservations wait for idempotencyd in this client: try again later",
                   std::move(details));
}

absl::Status TooLarge() {
  return InvalidField("session.operation",
                      absl::StrCat("is over the ", limits::kMaxMessageBytes,
                                   " bytes that idempotencyd takes in one message"));
}

// How a stream ended, for operations that were not at fault: that another one made
// its frame invalid says nothing of them.
grpc::Status ForOthers(const grpc::Status& status) {
  if (ReasonOf(FromGrpcStatus(status)) != Reason::kRequestInvalid) return status;
  return grpc::Status(grpc::StatusCode::UNAVAILABLE,
                      "the session ended because of an operation of another caller");
}

SessionFrame::Timeout TimeLeft(Clock::time_point deadline, Clock::time_point now) {
  if (deadline == Clock::time_point::max()) return std::nullopt;
  return std::max<Clock::duration>(deadline - now, kAlarmGrain);
}

absl::Status OverSendLimit() {
  return InvalidField("session.operation", "is over the send limit of the channel to idempotencyd");
}

// Which frame `error` is about; the first that is not answered if it does not say: a
// server that answers what came before a bad frame looks at none after it.
std::uint64_t BadFrame(const absl::Status& error,
                       const std::vector<OutstandingOperation*>& unanswered) {
  std::uint64_t frame = 0;
  const ErrorDetails details = DetailsOf(error);
  const auto named = details.metadata.find(std::string(kFrameDetail));
  if (named != details.metadata.end() && absl::SimpleAtoi(named->second, &frame)) return frame;
  frame = std::numeric_limits<std::uint64_t>::max();
  for (const auto* operation : unanswered) frame = std::min(frame, operation->frame);
  return frame;
}

// Every frame that left was within the limit that this one is over, and nothing
// of this one was answered.
std::uint64_t HeaviestFrame(const std::vector<OutstandingOperation*>& unanswered) {
  absl::btree_map<std::uint64_t, std::size_t> bytes;
  for (const auto* operation : unanswered) bytes[operation->frame] += operation->body.size();
  const auto heaviest = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return heaviest == bytes.end() ? 0 : heaviest->first;
}

// The session whose frame of answers this thread deals with. What callers ask
// for in their callbacks then leaves in one frame, not the first by itself.
thread_local const Session* answering = nullptr;

}  // namespace

Session::Session(SessionLinkFactory streams, std::unique_ptr<Connection> unary,
                 SessionConnectionOptions options, const ApplicationLog& log)
    : make_stream_(std::move(streams)),
      options_(options),
      log_(log),
      reachability_(log),
      alarm_("session-alarm", [this] { return Ring(); }),
      unary_(std::move(unary)) {}

Session::~Session() {
  alarm_.Stop();
  {
    SessionErrands errands;
    {
      MutexLock lock(mutex_);
      // From here on nothing is added, and nothing is looked for.
      closing_ = true;
      for (auto& [id, operation] : operations_) {
        errands.Fail(std::move(operation), reachability_.Failed(Closing()));
      }
      operations_.clear();
      for (const auto& lane : lanes_) errands.Cancel(lane->stream());
    }
    errands.Run(reachability_);
  }
  MutexLock lock(mutex_);
  while (!lanes_.empty() || ending_ > 0) lane_ended_.Wait(lock);
}

void Session::Reserve(const v1::ReserveRequest& request, Deadline deadline,
                      Callback<v1::ReserveResponse> done) {
  if (absl::Status valid = ValidateTexts(request); !valid.ok()) return done(std::move(valid));
  Begin(OutstandingOperation::Make(request, deadline, std::move(done)));
}

void Session::Complete(const v1::CompleteRequest& request, Deadline deadline,
                       Callback<v1::CompleteResponse> done) {
  if (absl::Status valid = ValidateTexts(request); !valid.ok()) return done(std::move(valid));
  Begin(OutstandingOperation::Make(request, deadline, std::move(done)));
}

void Session::Release(const v1::ReleaseRequest& request, Deadline deadline,
                      Callback<v1::ReleaseResponse> done) {
  if (absl::Status valid = ValidateTexts(request); !valid.ok()) return done(std::move(valid));
  Begin(OutstandingOperation::Make(request, deadline, std::move(done)));
}

void Session::Extend(const v1::ExtendRequest& request, Deadline deadline,
                     Callback<v1::ExtendResponse> done) {
  if (absl::Status valid = ValidateTexts(request); !valid.ok()) return done(std::move(valid));
  Begin(OutstandingOperation::Make(request, deadline, std::move(done)));
}

void Session::Get(const v1::GetRequest& request, Deadline deadline,
                  Callback<v1::GetResponse> done) {
  if (absl::Status valid = ValidateTexts(request); !valid.ok()) return done(std::move(valid));
  Begin(OutstandingOperation::Make(request, deadline, std::move(done)));
}

void Session::Begin(Operation operation) {
  const Time now = Clock::now();
  SessionErrands errands;
  {
    MutexLock lock(mutex_);
    if (closing_) {
      errands.Fail(std::move(operation), reachability_.Failed(Closing()));
    } else if (operation->deadline <= now) {
      errands.Fail(std::move(operation), reachability_.Failed(Passed()));
    } else if (SessionFrame::Weight(operation->body.size()) > limits::kMaxMessageBytes) {
      errands.Fail(std::move(operation), TooLarge());
    } else if (unary_only_) {
      errands.SendBy(*unary_, std::move(operation));
    } else if (operation->limited && waiting_.limited() >= options_.max_waiting) {
      errands.Fail(std::move(operation), Overloaded());
    } else {
      operation->id = ++last_id_;
      alarm_.NoLaterThan(operation->deadline);
      waiting_.Add(*operation);
      operations_.emplace(operation->id, std::move(operation));
      if (answering != this) Pump(now, errands);
    }
  }
  errands.Run(reachability_);
}

void Session::Pump(Time now, SessionErrands& errands) {
  if (closing_) return;
  OpenLanes(now, errands);
  for (SessionLane* lane : LanesByLoad()) {
    std::string frame = Gather(*lane, now);
    if (!frame.empty()) {
      lane->WriteBegins();
      errands.Write(*lane->stream(), std::move(frame));
    } else if (lane->BeginHalfClose(now + options_.silence_allowed)) {
      alarm_.NoLaterThan(lane->owed_until());
      errands.HalfClose(*lane->stream());
    }
  }
}

void Session::OpenLanes(Time now, SessionErrands& errands) {
  if (waiting_.empty() || unary_only_) return;
  // One that breaks before it was established: its end, which comes next, tells
  // whether another has a chance.
  const bool failing = std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
    return lane->broken() && !lane->established();
  });
  if (failing) return;
  const auto wanted = static_cast<std::size_t>(std::max(options_.streams, 1));
  for (std::size_t usable = usable_lanes(); usable < wanted; ++usable) {
    if (usable > 0 && now < next_lane_at_) return;
    OpenLane(errands);
  }
}

void Session::OpenLane(SessionErrands& errands) {
  lanes_.push_back(std::make_unique<SessionLane>(make_stream_(*this)));
  errands.Start(*lanes_.back()->stream());
}

Session::Lanes Session::LanesByLoad() const {
  Lanes lanes;
  for (const auto& lane : lanes_) {
    if (lane->writable()) lanes.push_back(lane.get());
  }
  std::sort(lanes.begin(), lanes.end(),
            [](const auto* a, const auto* b) { return a->unanswered() < b->unanswered(); });
  return lanes;
}

std::string Session::Gather(SessionLane& lane, Time now) {
  const std::size_t most = std::min(lane.max_frame_bytes(), kFrameBytes);
  SessionFrame frame;
  std::size_t operations = 0;
  for (const std::uint64_t id : lane.TakeCancels()) {
    frame.AddCancel(id);
    ++operations;
  }
  for (; lane.usable() && operations < lane.max_frame_operations(); ++operations) {
    OutstandingOperation* const next = waiting_.First(lane.has_room());
    if (next == nullptr) break;
    const std::size_t weight = SessionFrame::Weight(next->body.size());
    if (frame.empty()) {
      frame.Reserve(std::max(weight, std::min(weight * waiting_.size(), most)));
    } else if (frame.size() + weight > most || next->alone) {
      break;
    }
    waiting_.RemoveFirst(*next);
    lane.Carry(*next);
    next->frame = lane.next_frame();
    frame.Add(next->id, TimeLeft(next->deadline, now), next->body);
    if (next->alone) break;
  }
  return std::move(frame).Take();
}

void Session::OnFrame(SessionLink& stream, v1::SessionResponse frame) {
  const Time now = Clock::now();
  SessionErrands errands;
  bool read_on = true;
  {
    MutexLock lock(mutex_);
    SessionLane& lane = LaneOf(stream);
    if (!closing_) {
      const std::string_view rule = TakeFrame(lane, frame, errands);
      if (!rule.empty()) {
        Expel(lane, rule, now, errands);
        read_on = false;
      }
      Pump(now, errands);
    }
    if (lane.BeginRelease()) errands.Release(stream);
  }
  // Before the callbacks, so that they do not hold up the next frame.
  if (read_on) stream.Read();
  RunTogether(errands);
}

void Session::RunTogether(SessionErrands& errands) {
  const Session* const outer = std::exchange(answering, this);
  errands.Run(reachability_);
  answering = outer;
  SessionErrands asked;
  {
    MutexLock lock(mutex_);
    Pump(Clock::now(), asked);
  }
  asked.Run(reachability_);
}

std::string_view Session::TakeFrame(SessionLane& lane, v1::SessionResponse& frame,
                                    SessionErrands& errands) {
  lane.Heard();
  reachability_.Answered();
  if (!lane.established()) {
    if (frame.limits().max_in_flight() == 0 || frame.limits().max_frame_bytes() == 0) {
      return "its first frame tells no limits";
    }
    Establish(lane, frame);
  }
  if (frame.draining()) lane.Drain();
  for (v1::SessionAnswer& answer : *frame.mutable_answers()) {
    const std::string_view rule = TakeAnswer(lane, answer, errands);
    if (!rule.empty()) return rule;
  }
  return {};
}

std::string_view Session::TakeAnswer(SessionLane& lane, v1::SessionAnswer& answer,
                                     SessionErrands& errands) {
  const auto found = operations_.find(answer.id());
  if (found == operations_.end() || found->second->lane != &lane) {
    if (lane.SettleGivenUp(answer.id())) return {};
    return "it answered what was not asked, or was answered before";
  }
  Operation& operation = found->second;
  if (!answer.has_error() && !operation->IsAnswer(answer)) {
    return "it answered with a response of another kind";
  }
  lane.Settle(*operation);
  errands.Answer(std::move(operation), answer);
  operations_.erase(found);
  return {};
}

void Session::Establish(SessionLane& lane, const v1::SessionResponse& frame) {
  lane.Establish(frame.limits());
  if (!frame.draining()) failed_openings_ = 0;
  if (unary_only_) {
    unary_only_ = false;
    try_session_at_ = Time::max();
    log_.Write(LogSeverity::kInfo, "idempotencyd has sessions now: unary calls are no longer used");
  }
}

void Session::Expel(SessionLane& lane, std::string_view rule, Time now, SessionErrands& errands) {
  lane.Break();
  errands.Cancel(lane.stream());
  if (now < next_complaint_at_) return;
  next_complaint_at_ = now + kPauseBetweenComplaints;
  log_.Write(LogSeverity::kError,
             absl::StrCat("idempotencyd broke a rule of its session: ", AbslView(rule),
                          "; what is outstanding is sent again"));
}

void Session::OnWritten(SessionLink& stream, bool ok) {
  SessionErrands errands;
  {
    MutexLock lock(mutex_);
    SessionLane& lane = LaneOf(stream);
    lane.WriteEnds();
    if (!ok) lane.Break();
    Pump(Clock::now(), errands);
    if (lane.BeginRelease()) errands.Release(stream);
  }
  errands.Run(reachability_);
}

void Session::OnReadEnd(SessionLink& stream) {
  SessionErrands errands;
  {
    MutexLock lock(mutex_);
    SessionLane& lane = LaneOf(stream);
    lane.Break();
    if (lane.BeginRelease()) errands.Release(stream);
  }
  errands.Run(reachability_);
}

void Session::OnEnd(SessionLink& stream, const grpc::Status& status) {
  const Time now = Clock::now();
  std::unique_ptr<SessionLane> ended;
  SessionErrands errands;
  {
    MutexLock lock(mutex_);
    ended = RemoveLane(stream);
    ++ending_;
    if (!closing_) {
      TakeBack(*ended, status, errands);
      // What cannot be sent has been set apart: the others have a chance.
      if (!ended->established() && !IsOverSendLimit(status)) {
        NoteFailedOpening(status, now);
        if (unary_only_) DivertWaiting(errands);
        if (IsHopeless(status)) {
          FailWaiting(ForOthers(status), stream.had_connection(), errands);
        }
      }
      Pump(now, errands);
    }
  }
  errands.Run(reachability_);
  // Before it counts as ended: what is left of the call holds the channel, and
  // the last of its holders must not be a thread of gRPC's.
  ended.reset();
  MutexLock lock(mutex_);
  --ending_;
  lane_ended_.NotifyAll();
}

void Session::NoteFailedOpening(const grpc::Status& status, Time now) {
  const bool no_session = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
  next_lane_at_ = now + (no_session ? options_.retry_session_after : kPauseBetweenLanes);
  if (!no_session) ++failed_openings_;
  const bool others = std::any_of(lanes_.begin(), lanes_.end(),
                                  [](const auto& lane) { return lane->established(); });
  if (no_session && !others && !unary_only_) {
    unary_only_ = true;
    log_.Write(LogSeverity::kInfo, "idempotencyd has no sessions: using unary calls");
  }
  if (unary_only_) {
    try_session_at_ = now + options_.retry_session_after;
    alarm_.NoLaterThan(try_session_at_);
  }
}

void Session::TakeBack(const SessionLane& lane, const grpc::Status& status,
                       SessionErrands& errands) {
  const bool unsendable = IsOverSendLimit(status);
  const absl::Status error = unsendable ? OverSendLimit() : FromGrpcStatus(status);
  const std::vector<OutstandingOperation*> unanswered = UnansweredOn(lane);
  if (unsendable) {
    SetCulpritsApart(unanswered, HeaviestFrame(unanswered));
  } else if (ReasonOf(error) == Reason::kRequestInvalid) {
    SetCulpritsApart(unanswered, BadFrame(error, unanswered));
  }
  std::vector<OutstandingOperation*> again;
  for (OutstandingOperation* operation : unanswered) {
    operation->lane = nullptr;
    if (lane.stream()->had_connection()) operation->maybe_sent = true;
    if (operation->refused) {
      errands.Fail(Remove(operation->id), error);
    } else if (operation->times_sent >= kMaxTimesSent) {
      errands.Fail(Remove(operation->id), reachability_.Failed(ForOthers(status)));
    } else {
      again.push_back(operation);
    }
  }
  waiting_.PutBack(again);
}

std::vector<OutstandingOperation*> Session::UnansweredOn(const SessionLane& lane) const {
  std::vector<OutstandingOperation*> unanswered;
  for (const auto& [id, operation] : operations_) {
    if (operation->lane == &lane) unanswered.push_back(operation.get());
  }
  std::sort(unanswered.begin(), unanswered.end(),
            [](const auto* a, const auto* b) { return a->id < b->id; });
  return unanswered;
}

void Session::SetCulpritsApart(const std::vector<OutstandingOperation*>& unanswered,
                               std::uint64_t bad_frame) {
  for (OutstandingOperation* operation : unanswered) {
    if (operation->frame != bad_frame) {
      // Not one of those that it may break: however many culprits there are, it is
      // sent until it is answered.
      --operation->times_sent;
      continue;
    }
    operation->refused = operation->alone;
    operation->alone = true;
  }
}

bool Session::IsHopeless(const grpc::Status& status) const {
  if (waiting_.empty() || usable_lanes() > 0) return false;
  // A refusal is one, however often it is asked for. CANCELLED is what a daemon
  // makes of a call that comes while it ends.
  const grpc::StatusCode code = ForOthers(status).error_code();
  const bool may_pass =
      code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::CANCELLED;
  return !may_pass || failed_openings_ >= kMaxFailedOpenings;
}

Session::Time Session::Ring() {
  const Time now = Clock::now();
  SessionErrands errands;
  Time next;
  {
    MutexLock lock(mutex_);
    next = FailExpired(now, errands);
    next = std::min(next, CancelOverdue(now, errands));
    next = std::min(next, TrySessionAgain(now, errands));
    Pump(now, errands);
  }
  errands.Run(reachability_);
  return std::max(next, now + kAlarmGrain);
}

Session::Time Session::FailExpired(Time now, SessionErrands& errands) {
  Time next = Time::max();
  waiting_.RemoveExpired(now);
  for (auto at = operations_.begin(); at != operations_.end();) {
    const auto current = at++;
    OutstandingOperation& operation = *current->second;
    if (operation.deadline > now) {
      next = std::min(next, operation.deadline);
      continue;
    }
    if (operation.lane != nullptr) {
      operation.lane->GiveUp(operation, now + options_.silence_allowed);
    }
    errands.Fail(std::move(current->second), reachability_.Failed(Passed()));
    operations_.erase(current);
  }
  return next;
}

Session::Time Session::CancelOverdue(Time now, SessionErrands& errands) {
  Time next = Time::max();
  for (const auto& lane : lanes_) {
    if (lane->owed_until() > now) {
      next = std::min(next, lane->owed_until());
      continue;
    }
    lane->Heard();
    lane->Break();
    errands.Cancel(lane->stream());
  }
  return next;
}

Session::Time Session::TrySessionAgain(Time now, SessionErrands& errands) {
  if (now < try_session_at_) return try_session_at_;
  // Its end, if it fails, names the next time.
  try_session_at_ = Time::max();
  OpenLane(errands);
  return Time::max();
}

SessionLane& Session::LaneOf(const SessionLink& stream) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& lane) {
    return lane->stream().get() == &stream;
  });
  assert(found != lanes_.end());
  return **found;
}

std::unique_ptr<SessionLane> Session::RemoveLane(const SessionLink& stream) {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& lane) {
    return lane->stream().get() == &stream;
  });
  assert(found != lanes_.end());
  std::unique_ptr<SessionLane> lane = std::move(*found);
  lanes_.erase(found);
  return lane;
}

std::size_t Session::usable_lanes() const {
  return std::count_if(lanes_.begin(), lanes_.end(),
                       [](const auto& lane) { return lane->usable(); });
}

Session::Operation Session::Remove(std::uint64_t id) {
  const auto found = operations_.find(id);
  Operation operation = std::move(found->second);
  operations_.erase(found);
  return operation;
}

void Session::FailWaiting(const grpc::Status& status, bool connected, SessionErrands& errands) {
  const absl::Status failed = reachability_.Failed(status);
  const absl::Status not_connected = connected ? failed : NotConnected();
  while (const OutstandingOperation* next = waiting_.First(/*limited_too=*/true)) {
    waiting_.RemoveFirst(*next);
    const bool maybe_sent = next->maybe_sent;
    errands.Fail(Remove(next->id), maybe_sent ? failed : not_connected);
  }
}

void Session::DivertWaiting(SessionErrands& errands) {
  while (const OutstandingOperation* next = waiting_.First(/*limited_too=*/true)) {
    waiting_.RemoveFirst(*next);
    errands.SendBy(*unary_, Remove(next->id));
  }
}

}  // namespace idempotency::internal
