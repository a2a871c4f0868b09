#include "server/rpc/session_call.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/time/time.h"

#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/limits.h"
#include "server/queue/answer_batch_scope.h"
#include "server/rpc/inline_write_scope.h"
#include "server/rpc/session_errors.h"

namespace idempotency::internal {
namespace {

v1::SessionResponse DrainingNotice() {
  v1::SessionResponse notice;
  notice.set_draining(true);
  return notice;
}

}  // namespace

SessionCall::SessionCall(Operations& operations, SessionRegistry& registry,
                         UnreadAnswerLimits& unread_answers, const SessionOptions& options,
                         std::function<void()> cancel_call, std::unique_ptr<Caller> caller,
                         const std::string& host)
    : operations_(operations),
      registry_(registry),
      unread_answers_(unread_answers),
      options_(options),
      cancel_call_(std::move(cancel_call)),
      caller_(std::move(caller)),
      host_(unread_answers.answers().Of(host)),
      began_(operations.clock().Monotonic()),
      outgoing_(options.max_answer_frame_bytes, host_),
      unanswered_(options.max_in_flight) {}

SessionCall::~SessionCall() = default;

void SessionCall::Start() {
  v1::SessionResponse first;
  first.mutable_limits()->set_max_in_flight(static_cast<std::uint32_t>(options_.max_in_flight));
  first.mutable_limits()->set_max_frame_bytes(static_cast<std::uint32_t>(limits::kMaxMessageBytes));
  first.mutable_limits()->set_max_frame_operations(
      static_cast<std::uint32_t>(options_.max_frame_operations));
  Next next;
  {
    MutexLock lock(mutex_);
    outgoing_.Add(first);
    next = Step();
  }
  Do(next);
  unread_answers_.CallBegins();
  // After the first frame is on its way, which must be the one with the limits.
  if (registry_.Add(this)) AnnounceDraining();
}

void SessionCall::AnnounceDraining() {
  Next next;
  {
    MutexLock lock(mutex_);
    outgoing_.Add(DrainingNotice());
    next = Step();
  }
  Do(next);
}

void SessionCall::AnnounceRenewal() {
  if (caller_ == nullptr) return;
  Next next;
  {
    MutexLock lock(mutex_);
    if (reached_max_age_ || phase_ != Phase::kOpen || !caller_->MustRenew()) return;
    reached_max_age_ = true;
    outgoing_.Add(DrainingNotice());
    next = Step();
  }
  Do(next);
}

bool SessionCall::AbandonIfStalled() {
  MutexLock lock(mutex_);
  if (!IsStalled() && !HasTooManyUnread()) return false;
  Abandon();
  return true;
}

bool SessionCall::AbandonIfWritingSince(SteadyTime since) {
  MutexLock lock(mutex_);
  const auto& write = outgoing_.write();
  if (!MaySend() || !write.has_value() || write->since != since) return false;
  Abandon();
  return true;
}

std::optional<UnreadAnswers> SessionCall::Unread() {
  MutexLock lock(mutex_);
  const auto& write = outgoing_.write();
  if (!write.has_value() || outgoing_.others() == 0) return std::nullopt;
  return UnreadAnswers{0, write->since, outgoing_.others(), host_, UnreadAnswers::Of::kSession};
}

std::optional<UnreadAnswers> SessionCall::Overdue() {
  {
    MutexLock lock(mutex_);
    if (!HasHadTimeToRead()) return std::nullopt;
  }
  return Unread();
}

void SessionCall::EndAbandoned() {
  Next next;
  next.abandon = true;
  Do(next);
}

// Reactions.

void SessionCall::OnReadDone(bool ok) {
  if (ok) TakeFrame();
  Next next;
  std::vector<InFlightWaiters::WaiterPtr> waiting;
  {
    MutexLock lock(mutex_);
    const Reading was = std::exchange(reading_, ok ? Reading::kNone : Reading::kEnded);
    // OnCancel left the operations of this frame to this.
    const bool was_cancelled = phase_ == Phase::kBroken && was == Reading::kBeginsOperations;
    if (was_cancelled || phase_ == Phase::kFailed) waiting = unanswered_.Waiters();
    if (phase_ == Phase::kOpen && ReachedMaxAge()) outgoing_.Add(DrainingNotice());
    next = Step();
  }
  // Before the caller can see the end of the stream: from then on nothing of it goes to the store.
  Cancel(waiting);
  Do(next);
}

void SessionCall::OnWriteDone(bool ok) {
  Next next;
  {
    MutexLock lock(mutex_);
    outgoing_.WriteEnds();
    if (ok) operations_.observer().FrameSent();
    // OnCancel follows, and handles the waiting operations.
    if (!ok) Break();
    next = Step();
  }
  Do(next);
}

void SessionCall::OnCancel() {
  Next next;
  std::vector<InFlightWaiters::WaiterPtr> waiting;
  {
    MutexLock lock(mutex_);
    Break();
    if (reading_ != Reading::kBeginsOperations) waiting = unanswered_.Waiters();
    next = Step();
  }
  Cancel(waiting);
  Do(next);
}

void SessionCall::OnDone() {
  registry_.Remove(this);
  {
    MutexLock lock(mutex_);
    phase_ = Phase::kDone;
    // The last answer deletes it then.
    if (!unanswered_.empty()) return;
  }
  delete this;
}

// Frames.

void SessionCall::TakeFrame() {
  ++frames_read_;
  const absl::Status begun = BeginFrame();
  if (!begun.ok()) Fail(OfFrame(frames_read_, begun));
}

absl::Status SessionCall::BeginFrame() {
  RequestFrame frame(read_.Length());
  absl::Status wrong =
      frame.Parse(read_, {options_.max_frame_operations, options_.max_frame_parsed_bytes});
  if (!wrong.ok()) return wrong;
  frame.MakeOperations(*this, caller_.get(), operations_.clock().Monotonic());
  wrong = Register(frame);
  operations_.observer().FrameReceived(frame.size());
  if (!wrong.ok()) return wrong;
  {
    const AnswerBatchScope scope;
    frame.Begin(operations_);
  }
  StopWaiting(frame.cancels());
  return absl::OkStatus();
}

void SessionCall::Fail(absl::Status wrong) {
  failed_.store(true, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  if (phase_ != Phase::kOpen) return;
  phase_ = Phase::kFailed;
  failure_ = std::move(wrong);
}

absl::Status SessionCall::Register(RequestFrame& frame) {
  MutexLock lock(mutex_);
  reading_ = Reading::kBeginsOperations;
  return unanswered_.Add(frame);
}

void SessionCall::Deliver(GatheredAnswers& gathered) {
  // Destroyed without the lock.
  std::vector<std::unique_ptr<UnansweredOperation>> answered;
  answered.reserve(gathered.ids().size());
  // While they are unanswered, and keep what this uses.
  if (IsCrowded()) unread_answers_.MakeRoom(gathered.frames().bytes());
  Next next;
  bool last = false;
  {
    MutexLock lock(mutex_);
    for (const std::uint64_t id : gathered.ids()) answered.push_back(unanswered_.Remove(id));
    // Without those that come now, which its caller has had no time to read.
    const bool too_many = HasTooManyUnread();
    if (!too_many && MaySend()) {
      outgoing_.Add(std::move(gathered.frames()), gathered.TakeHolds());
    }
    next = too_many ? Abandon() : Step();
    last = phase_ == Phase::kDone && unanswered_.empty();
  }
  if (last) {
    delete this;
    return;
  }
  // The next action keeps the stream. Without one another thread may have ended it
  // since.
  if (!next.any()) return;
  const InlineWriteScope scope;
  Do(next);
}

void SessionCall::StopWaiting(const std::vector<std::uint64_t>& ids) {
  for (const std::uint64_t id : ids) {
    InFlightWaiters::WaiterPtr waiting;
    {
      MutexLock lock(mutex_);
      waiting = unanswered_.WaiterOf(id);
    }
    operations_.StopWaiting(waiting);
  }
}

void SessionCall::Cancel(const std::vector<InFlightWaiters::WaiterPtr>& waiters) {
  for (const InFlightWaiters::WaiterPtr& waiter : waiters) operations_.Cancel(waiter);
}

// The next actions.

bool SessionCall::ReachedMaxAge() {
  if (reached_max_age_) return false;
  reached_max_age_ =
      (caller_ != nullptr && caller_->MustRenew()) ||
      (options_.max_age != absl::InfiniteDuration() &&
       operations_.clock().Monotonic() - began_ >= absl::ToChronoNanoseconds(options_.max_age));
  return reached_max_age_;
}

SessionCall::Next SessionCall::Step() {
  Next next;
  if (MaySend()) {
    next.write = outgoing_.BeginWrite(operations_.clock().Monotonic());
  } else {
    outgoing_.DropUnsent();
  }
  unwritten_bytes_.store(outgoing_.bytes(), std::memory_order_relaxed);
  if (MayRead()) {
    reading_ = Reading::kUnderWay;
    next.read = true;
  }
  if (IsOver()) {
    phase_ = Phase::kFinished;
    next.finish = true;
  }
  return next;
}

void SessionCall::Break() {
  if (MaySend()) phase_ = Phase::kBroken;
}

SessionCall::Next SessionCall::Abandon() {
  Break();
  abandoning_ = true;
  Next next = Step();
  next.abandon = true;
  return next;
}

bool SessionCall::IsCrowded() const {
  const MemoryBudget& budget = this->budget();
  const std::size_t pool = budget.unread_answers_pool();
  return budget.unread_answers() > pool || HasTooMuch(host_.get(), pool);
}

bool SessionCall::HasHadTimeToRead() const {
  const auto& write = outgoing_.write();
  return write.has_value() && operations_.clock().Monotonic() - write->since >=
                                  absl::ToChronoNanoseconds(limits::kSessionReadTime);
}

bool SessionCall::HasTooManyUnread() const {
  const MemoryBudget& budget = this->budget();
  return MaySend() && budget.UnreadAnswersAreMany() &&
         outgoing_.others() > budget.UnreadAnswersAllowance() && HasHadTimeToRead();
}

bool SessionCall::IsStalled() const {
  const auto& write = outgoing_.write();
  if (!MaySend() || !write.has_value()) return false;
  const std::size_t frames = 1 + write->bytes / options_.max_answer_frame_bytes;
  return operations_.clock().Monotonic() - write->since >=
         absl::ToChronoNanoseconds(options_.write_timeout * static_cast<double>(frames));
}

bool SessionCall::MaySend() const { return phase_ == Phase::kOpen || phase_ == Phase::kFailed; }

bool SessionCall::MayRead() const {
  const std::size_t unwritten = outgoing_.bytes();
  return phase_ == Phase::kOpen && reading_ == Reading::kNone &&
         unanswered_.size() < options_.max_unanswered &&
         unanswered_.bytes() < options_.max_unanswered_bytes &&
         unwritten < options_.max_unwritten_bytes &&
         (unwritten == 0 || !operations_.budget().UnreadAnswersAreMany());
}

bool SessionCall::IsOver() const {
  const bool is_reading = reading_ == Reading::kUnderWay || reading_ == Reading::kBeginsOperations;
  if (is_reading || outgoing_.write().has_value() || abandoning_) return false;
  switch (phase_) {
    case Phase::kOpen:
      return reading_ == Reading::kEnded && !outgoing_.has_unsent() && unanswered_.empty();
    case Phase::kFailed:
      return !outgoing_.has_unsent();
    case Phase::kBroken:
      return unanswered_.empty();
    default:
      return false;
  }
}

void SessionCall::Do(const Next& next) {
  if (next.abandon) {
    // OnCancel follows, and handles the waiting operations.
    cancel_call_();
    Next last;
    {
      MutexLock lock(mutex_);
      abandoning_ = false;
      last = Step();
    }
    // Without a next action another thread may have ended it since.
    if (last.any()) Do(last);
    return;
  }
  if (next.finish) {
    absl::Status status;
    {
      MutexLock lock(mutex_);
      status = failure_;
    }
    Finish(ToGrpcStatus(status));
    return;
  }
  // A read cannot end the stream while a write is under way, so the write comes
  // last.
  if (next.read) StartRead(&read_);
  if (next.write != nullptr) StartWrite(next.write);
}

}  // namespace idempotency::internal
