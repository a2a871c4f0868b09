#include "server/rpc/session_call.h"

#include <google/protobuf/arena.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "core/answer_kind.h"
#include "core/grpc_headers.h"
#include "core/protobuf_version.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "server/operation/pending_operation.h"
#include "server/operation/wire_request.h"
#include "server/queue/response_batch_scope.h"
#include "server/rpc/ended_writes.h"
#include "server/rpc/frame_bounds.h"

namespace idempotency::internal {
namespace {

// As the batcher's: after this time the earlier answers have been sent.
constexpr absl::Duration kOverloadedRetryDelay = absl::Milliseconds(500);
// Larger answers hold a stored reply, which can be read again.
constexpr std::size_t kMaxGrantBytes = 64 * 1024;
// The first block of a parsed frame: about the size of one operation, and of some dozen.
constexpr std::size_t kFirstFrameBlockBytes = 1024;
constexpr std::size_t kMaxFrameBlockBytes = 32 * 1024;
// The assumed ratio of a parsed operation's size to its size on the wire.
constexpr std::size_t kParsedBytesPerByte = 4;

absl::Status Overloaded(std::string_view message) {
  return MakeError(Reason::kOverloaded, message, {kOverloadedRetryDelay, {}, {}});
}

bool IsCounted(OperationKind kind) {
  return kind == OperationKind::kReserve || kind == OperationKind::kGet;
}

// The error, with the number of the frame that it concerns, from 1: so the caller
// can send that frame's operations separately.
absl::Status OfFrame(std::uint64_t number, const absl::Status& error) {
  ErrorDetails details = DetailsOf(error);
  details.metadata[std::string(kFrameDetail)] = absl::StrCat(number);
  return MakeError(Reason::kRequestInvalid, std::string(error.message()), std::move(details));
}

// A frame as gRPC sends it, without copying its bytes.
grpc::ByteBuffer BufferOf(std::string frame) {
  auto owned = std::make_unique<std::string>(std::move(frame));
  std::string* const bytes = owned.release();
  const grpc::Slice slice(
      bytes->data(), bytes->size(),
      [](void* string) { std::unique_ptr<std::string>(static_cast<std::string*>(string)); }, bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// The field of each kind of response in an answer.
v1::ReserveResponse& In(v1::SessionAnswer& answer, const v1::ReserveResponse*) {
  return *answer.mutable_reserve();
}
v1::CompleteResponse& In(v1::SessionAnswer& answer, const v1::CompleteResponse*) {
  return *answer.mutable_complete();
}
v1::ReleaseResponse& In(v1::SessionAnswer& answer, const v1::ReleaseResponse*) {
  return *answer.mutable_release();
}
v1::ExtendResponse& In(v1::SessionAnswer& answer, const v1::ExtendResponse*) {
  return *answer.mutable_extend();
}
v1::GetResponse& In(v1::SessionAnswer& answer, const v1::GetResponse*) {
  return *answer.mutable_get();
}

v1::SessionResponse Farewell() {
  v1::SessionResponse farewell;
  farewell.set_draining(true);
  return farewell;
}

void WriteError(const absl::Status& status, v1::SessionError& error) {
  const grpc::Status on_wire = ToGrpcStatus(status);
  error.set_code(on_wire.error_code());
  error.set_message(on_wire.error_message());
  error.set_details(on_wire.error_details());
}

}  // namespace

// The answers of one ResponseBatchScope to one stream.
class SessionCall::GatheredAnswers final : public ResponseBatchScope::Flushable {
 public:
  explicit GatheredAnswers(SessionCall& stream)
      : stream_(stream), frames_(stream.options_.max_answer_frame_bytes), arena_(ArenaOptions()) {}

  // The answer that is being made; Add() begins the next one.
  v1::SessionAnswer& answer() {
    if (answer_ == nullptr) {
      answer_ = NewOnArena<v1::SessionAnswer>(arena_);
    }
    return *answer_;
  }

  // `hold` is the answer's existing part of the memory budget.
  void Add(std::uint64_t id, const absl::Status& status, MemoryBudget::Hold hold = {}) {
    // Every other operation is answered on the caller's next stream.
    const bool told = status.code() != absl::StatusCode::kCancelled ||
                      !stream_.failed_.load(std::memory_order_relaxed);
    if (told) Append(id, status, std::move(hold));
    ids_.push_back(id);
    answer_ = nullptr;
    arena_.Reset();
  }

  void Flush() override { stream_.Deliver(*this); }

  AnswerFrames& frames() { return frames_; }
  // The frames' part of the memory budget.
  std::vector<MemoryBudget::Hold> TakeHolds() {
    holds_.push_back(stream_.operations_.batcher().budget().HoldAnswer(others_bytes_));
    return std::move(holds_);
  }
  const std::vector<std::uint64_t>& ids() const { return ids_; }

 private:
  void Append(std::uint64_t id, const absl::Status& status, MemoryBudget::Hold hold) {
    v1::SessionAnswer& made = answer();
    if (!status.ok()) {
      made.Clear();
      WriteError(status, *made.mutable_error());
    } else if (!Fits(made.ByteSizeLong())) {
      made.Clear();
      WriteError(Overloaded("The answers of this session are not being read. Send the operation "
                            "again when they are."),
                 *made.mutable_error());
    }
    made.set_id(id);
    const std::size_t before = frames_.bytes();
    frames_.Append(made);
    Hold(std::move(hold), frames_.bytes() - before);
  }

  // Only the answer's bytes in the frame are left.
  void Hold(MemoryBudget::Hold hold, std::size_t bytes) {
    if (hold.bytes() < bytes) {
      others_bytes_ += bytes;
    } else {
      hold.ShrinkTo(bytes);
      holds_.push_back(std::move(hold));
    }
  }

  google::protobuf::ArenaOptions ArenaOptions() {
    google::protobuf::ArenaOptions options;
    options.initial_block = block_.data();
    options.initial_block_size = block_.size();
    return options;
  }

  bool Fits(std::size_t bytes) const {
    return bytes <= kMaxGrantBytes ||
           stream_.unwritten_bytes_.load(std::memory_order_relaxed) + frames_.bytes() + bytes <=
               stream_.options_.max_held_bytes;
  }

  SessionCall& stream_;
  AnswerFrames frames_;
  std::vector<MemoryBudget::Hold> holds_;
  // The size of the answers that hold no memory budget yet.
  std::size_t others_bytes_ = 0;
  std::vector<std::uint64_t> ids_;
  // Enough for an answer without its texts.
  alignas(std::max_align_t) std::array<char, 2048> block_;
  google::protobuf::Arena arena_;
  v1::SessionAnswer* answer_ = nullptr;
};

// One operation, until its answer is on its way.
class SessionCall::Call {
 public:
  // `bytes` is its share of its frame.
  Call(std::uint64_t id, std::size_t bytes, bool counted)
      : id_(id), bytes_(bytes), counted_(counted) {}
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  std::uint64_t id() const { return id_; }
  std::size_t bytes() const { return bytes_; }
  bool counted() const { return counted_; }
  // Of a reservation that waits, or is on its way to the store; otherwise nullptr.
  virtual InFlightWaiters::WaiterPtr waiting() const = 0;
  // Puts it into the group; it may be over, and this destroyed, afterwards.
  virtual void Begin(Operations& operations, const v1::SessionOperation& operation,
                     Batcher::Group& group) = 0;
  // In place of Begin().
  virtual void Refuse(Operations& operations, const absl::Status& why) = 0;

 private:
  const std::uint64_t id_;
  const std::size_t bytes_;
  const bool counted_;
};

template <typename Response>
class SessionCall::CallFor final : public Call, private PendingResponse<Response> {
 public:
  CallFor(SessionCall& stream, std::uint64_t id, std::size_t bytes, OperationKind kind,
          Batcher::Deadline arrived, Batcher::Deadline deadline)
      : Call(id, bytes, IsCounted(kind)),
        PendingResponse<Response>(kind, arrived, deadline),
        stream_(stream) {
    this->SetCaller(stream.caller_.get());
  }

  InFlightWaiters::WaiterPtr waiting() const override {
    return PendingResponse<Response>::waiting();
  }
  void Begin(Operations& operations, const v1::SessionOperation& operation,
             Batcher::Group& group) override {
    if constexpr (std::is_same_v<Response, v1::ReserveResponse>) {
      operations.Reserve(operation.reserve(), *this, &group);
    } else if constexpr (std::is_same_v<Response, v1::CompleteResponse>) {
      operations.Complete(operation.complete(), *this, &group);
    } else if constexpr (std::is_same_v<Response, v1::ReleaseResponse>) {
      operations.Release(operation.release(), *this, &group);
    } else if constexpr (std::is_same_v<Response, v1::ExtendResponse>) {
      operations.Extend(operation.extend(), *this, &group);
    } else {
      operations.Get(operation.get(), *this, &group);
    }
  }
  void Refuse(Operations& operations, const absl::Status& why) override {
    operations.Refuse(*this, why);
  }

 private:
  Response& response() override {
    return In(stream_.Gather().answer(), static_cast<const Response*>(nullptr));
  }
  void Finish(const absl::Status& status) override {
    stream_.Gather().Add(this->id(), status, this->TakeHold());
  }

  SessionCall& stream_;
};

// An operation of a kind that this server does not know, which it refuses. It has its place among
// the calls of its stream: its id is in use until its answer is on its way, and the stream stays.
class SessionCall::UnknownCall final : public Call {
 public:
  UnknownCall(SessionCall& stream, std::uint64_t id, std::size_t bytes)
      : Call(id, bytes, /*counted=*/false), stream_(stream) {}

  InFlightWaiters::WaiterPtr waiting() const override { return nullptr; }
  void Begin(Operations& operations, const v1::SessionOperation&, Batcher::Group&) override {
    Refuse(operations,
           InvalidField("operation", "is required, and must be one that this server knows"));
  }
  void Refuse(Operations&, const absl::Status& why) override { stream_.Gather().Add(id(), why); }

 private:
  SessionCall& stream_;
};

// The operations of one frame, on their way into the batcher.
class SessionCall::Frame {
 public:
  // `request` must outlive this.
  Frame(SessionCall& stream, const v1::SessionRequest& request, std::size_t bytes,
        Batcher::Deadline arrived)
      : stream_(stream), share_(bytes / request.operations_size()), arrived_(arrived) {
    entries_.reserve(request.operations_size());
    for (const v1::SessionOperation& operation : request.operations()) Add(operation);
  }

  struct Entry {
    const v1::SessionOperation* operation;
    std::unique_ptr<Call> made;
    // The same, once the stream owns it.
    Call* call = nullptr;
    // Not OK for one that does not begin.
    absl::Status refusal;
  };

  std::vector<Entry>& entries() { return entries_; }
  const std::vector<std::uint64_t>& cancels() const { return cancels_; }

  // All that were registered.
  void Begin(Operations& operations) {
    Batcher::Group group(entries_.size());
    for (Entry& entry : entries_) {
      if (entry.refusal.ok()) {
        entry.call->Begin(operations, *entry.operation, group);
      } else {
        entry.call->Refuse(operations, entry.refusal);
      }
    }
    operations.batcher().Submit(group);
  }

 private:
  void Add(const v1::SessionOperation& operation) {
    using Kind = v1::SessionOperation::OperationCase;
    switch (operation.operation_case()) {
      case Kind::kReserve:
        return Add<v1::ReserveResponse>(operation, OperationKind::kReserve);
      case Kind::kComplete:
        return Add<v1::CompleteResponse>(operation, OperationKind::kComplete);
      case Kind::kRelease:
        return Add<v1::ReleaseResponse>(operation, OperationKind::kRelease);
      case Kind::kExtend:
        return Add<v1::ExtendResponse>(operation, OperationKind::kExtend);
      case Kind::kGet:
        return Add<v1::GetResponse>(operation, OperationKind::kGet);
      case Kind::kCancel:
        cancels_.push_back(operation.id());
        return;
      case Kind::OPERATION_NOT_SET:
        break;
    }
    entries_.push_back({&operation, std::make_unique<UnknownCall>(stream_, operation.id(), share_),
                        nullptr, absl::OkStatus()});
  }

  template <typename Response>
  void Add(const v1::SessionOperation& operation, OperationKind kind) {
    const absl::StatusOr<absl::Duration> timeout = TimeoutFrom(operation);
    const Batcher::Deadline deadline =
        timeout.ok() ? After(arrived_, *timeout) : Batcher::kNoDeadline;
    entries_.push_back({&operation,
                        std::make_unique<CallFor<Response>>(stream_, operation.id(), share_, kind,
                                                            arrived_, deadline),
                        nullptr, timeout.status()});
  }

  SessionCall& stream_;
  // The assumed size of each operation.
  const std::size_t share_;
  const Batcher::Deadline arrived_;
  std::vector<Entry> entries_;
  std::vector<std::uint64_t> cancels_;
};

SessionCall::SessionCall(Operations& operations, SessionRegistry& registry,
                         const SessionOptions& options, std::unique_ptr<Caller> caller)
    : operations_(operations),
      registry_(registry),
      options_(options),
      caller_(std::move(caller)),
      began_(operations.clock().Monotonic()),
      frames_(options.max_answer_frame_bytes) {}

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
    frames_.Append(first);
    next = Step();
  }
  Do(next);
  // After the first frame is on its way, which must be the one with the limits.
  if (registry_.Add(this)) AnnounceDraining();
}

void SessionCall::AnnounceDraining() {
  Next next;
  {
    MutexLock lock(mutex_);
    frames_.Append(Farewell());
    next = Step();
  }
  Do(next);
}

// Reactions.

void SessionCall::OnReadDone(bool ok) {
  if (ok) TakeFrame();
  Next next;
  std::vector<InFlightWaiters::WaiterPtr> waiting;
  {
    MutexLock lock(mutex_);
    reading_ = false;
    if (!ok) half_closed_ = true;
    const bool submitted = std::exchange(submitting_, false);
    if ((submitted && cancelled_) || !failure_.ok()) waiting = Waiting();
    if (failure_.ok() && ComesOfAge()) frames_.Append(Farewell());
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
    writing_ = false;
    write_.Clear();
    writing_bytes_ = 0;
    if (ok) operations_.observer().FrameSent();
    // OnCancel follows, and handles the waiting operations.
    if (!ok) cancelled_ = true;
    next = Step();
  }
  Do(next);
}

void SessionCall::OnCancel() {
  Next next;
  std::vector<InFlightWaiters::WaiterPtr> waiting;
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (!submitting_) waiting = Waiting();
    next = Step();
  }
  Cancel(waiting);
  Do(next);
}

void SessionCall::OnDone() {
  registry_.Remove(this);
  {
    MutexLock lock(mutex_);
    done_ = true;
    // The last answer deletes it then.
    if (!calls_.empty()) return;
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
  const std::size_t bytes = read_.Length();
  absl::Status wrong =
      CheckFrame(read_, {options_.max_frame_operations, options_.max_frame_parsed_bytes});
  if (!wrong.ok()) {
    read_.Clear();
    return wrong;
  }
  google::protobuf::ArenaOptions memory;
  memory.start_block_size =
      std::min(kFirstFrameBlockBytes + kParsedBytesPerByte * bytes, kMaxFrameBlockBytes);
  memory.max_block_size = kMaxFrameBlockBytes;
  google::protobuf::Arena arena(memory);
  auto* const request = NewOnArena<v1::SessionRequest>(arena);
  // It takes the bytes out of the buffer in any case.
  if (!grpc::SerializationTraits<v1::SessionRequest>::Deserialize(&read_, request).ok()) {
    return UnreadableFrame();
  }
  if (request->operations().empty()) return InvalidField("operations", "must not be empty");
  Frame frame(*this, *request, bytes, operations_.clock().Monotonic());
  wrong = Register(frame);
  operations_.observer().FrameReceived(request->operations_size());
  if (!wrong.ok()) return wrong;
  {
    const ResponseBatchScope scope;
    frame.Begin(operations_);
  }
  StopWaiting(frame.cancels());
  return absl::OkStatus();
}

void SessionCall::Fail(absl::Status wrong) {
  failed_.store(true, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  failure_ = std::move(wrong);
}

absl::Status SessionCall::Register(Frame& frame) {
  MutexLock lock(mutex_);
  submitting_ = true;
  const std::size_t before = counted_;
  for (std::size_t i = 0; i < frame.entries().size(); ++i) {
    Frame::Entry& entry = frame.entries()[i];
    const std::uint64_t id = entry.operation->id();
    const auto [place, unused] = calls_.try_emplace(id);
    if (!unused) {
      for (std::size_t begun = 0; begun < i; ++begun) {
        calls_bytes_ -= frame.entries()[begun].call->bytes();
        calls_.erase(frame.entries()[begun].operation->id());
      }
      counted_ = before;
      return InvalidField("operations.id", "is the id of an operation that is not answered yet");
    }
    place->second = std::move(entry.made);
    entry.call = place->second.get();
    calls_bytes_ += entry.call->bytes();
    if (entry.call->counted() && ++counted_ > options_.max_in_flight && entry.refusal.ok()) {
      entry.refusal = Overloaded("More operations are in flight than this session may have.");
    }
  }
  return absl::OkStatus();
}

SessionCall::GatheredAnswers& SessionCall::Gather() {
  ResponseBatchScope& scope = *ResponseBatchScope::Current();
  if (ResponseBatchScope::Flushable* const found = scope.Find(this)) {
    return static_cast<GatheredAnswers&>(*found);
  }
  auto made = std::make_unique<GatheredAnswers>(*this);
  GatheredAnswers& gathered = *made;
  scope.Add(this, std::move(made));
  return gathered;
}

void SessionCall::Deliver(GatheredAnswers& gathered) {
  // Destroyed without the lock.
  std::vector<std::unique_ptr<Call>> answered;
  answered.reserve(gathered.ids().size());
  Next next;
  bool last = false;
  {
    MutexLock lock(mutex_);
    for (const std::uint64_t id : gathered.ids()) {
      const auto call = calls_.find(id);
      if (call->second->counted()) --counted_;
      calls_bytes_ -= call->second->bytes();
      answered.push_back(std::move(call->second));
      calls_.erase(call);
    }
    // Nothing is sent any more once the stream has ended.
    if (!finished_) {
      appended_bytes_ += gathered.frames().bytes();
      frames_.Append(std::move(gathered.frames()));
      holds_.emplace_back(appended_bytes_, gathered.TakeHolds());
    }
    next = Step();
    last = done_ && calls_.empty();
  }
  if (last) {
    delete this;
    return;
  }
  // The next action keeps the stream. Without one another thread may have ended it
  // since.
  if (!next.any()) return;
  const EndedWrites scope;
  Do(next);
}

void SessionCall::StopWaiting(const std::vector<std::uint64_t>& ids) {
  for (const std::uint64_t id : ids) {
    InFlightWaiters::WaiterPtr waiting;
    {
      MutexLock lock(mutex_);
      const auto call = calls_.find(id);
      if (call != calls_.end()) waiting = call->second->waiting();
    }
    if (waiting != nullptr) operations_.waiters().StopWaiting(waiting);
  }
}

std::vector<InFlightWaiters::WaiterPtr> SessionCall::Waiting() const {
  // In their order of arrival, not in that of a hash table.
  absl::btree_map<std::uint64_t, InFlightWaiters::WaiterPtr> by_id;
  for (const auto& [id, call] : calls_) {
    if (InFlightWaiters::WaiterPtr its = call->waiting()) by_id.emplace(id, std::move(its));
  }
  std::vector<InFlightWaiters::WaiterPtr> waiting;
  waiting.reserve(by_id.size());
  for (auto& [id, call] : by_id) waiting.push_back(std::move(call));
  return waiting;
}

void SessionCall::Cancel(const std::vector<InFlightWaiters::WaiterPtr>& calls) {
  for (const InFlightWaiters::WaiterPtr& call : calls) operations_.waiters().Cancel(call);
}

// The next actions.

bool SessionCall::ComesOfAge() {
  if (of_age_) return false;
  of_age_ =
      (caller_ != nullptr && caller_->MustRenew()) ||
      (options_.max_age != absl::InfiniteDuration() &&
       operations_.clock().Monotonic() - began_ >= absl::ToChronoNanoseconds(options_.max_age));
  return of_age_;
}

SessionCall::Next SessionCall::Step() {
  Next next;
  if (cancelled_) frames_.Clear();
  const std::size_t unwritten = frames_.bytes() + writing_bytes_;
  while (!holds_.empty() &&
         (unwritten == 0 || holds_.front().first + unwritten <= appended_bytes_)) {
    holds_.pop_front();
  }
  if (!writing_ && !finished_ && !frames_.empty()) {
    std::string frame = frames_.Pop();
    writing_bytes_ = frame.size();
    write_ = BufferOf(std::move(frame));
    writing_ = true;
    next.write = true;
  }
  unwritten_bytes_.store(frames_.bytes() + writing_bytes_, std::memory_order_relaxed);
  if (MayRead()) {
    reading_ = true;
    next.read = true;
  }
  if (IsOver()) {
    finished_ = true;
    next.finish = true;
  }
  return next;
}

bool SessionCall::MayRead() const {
  return !reading_ && !half_closed_ && !cancelled_ && !finished_ && failure_.ok() &&
         calls_.size() < options_.max_unanswered && calls_bytes_ < options_.max_unanswered_bytes &&
         frames_.bytes() + writing_bytes_ < options_.max_unwritten_bytes;
}

bool SessionCall::IsOver() const {
  if (finished_ || reading_ || writing_) return false;
  if (!failure_.ok()) return frames_.empty();
  return calls_.empty() && (cancelled_ || (half_closed_ && frames_.empty()));
}

void SessionCall::Do(const Next& next) {
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
  if (next.write) StartWrite(&write_);
}

}  // namespace idempotency::internal
