#include "server/rpc/gathered_answers.h"

#include <memory>
#include <utility>

#include "core/protobuf_version.h"
#include "grpc_idempotency/grpc_status.h"
#include "server/rpc/session_errors.h"

namespace idempotency::internal {
namespace {

// Larger answers hold a stored reply, which can be read again.
constexpr std::size_t kMaxGrantBytes = 64 * 1024;

void WriteError(const absl::Status& status, v1::SessionError& error) {
  const grpc::Status on_wire = ToGrpcStatus(status);
  error.set_code(on_wire.error_code());
  error.set_message(on_wire.error_message());
  error.set_details(on_wire.error_details());
}

}  // namespace

GatheredAnswers& GatheredAnswers::In(Stream& stream) {
  AnswerBatchScope& scope = *AnswerBatchScope::Current();
  if (AnswerBatchScope::Flushable* const found = scope.Find(&stream)) {
    return static_cast<GatheredAnswers&>(*found);
  }
  auto made = std::make_unique<GatheredAnswers>(stream);
  GatheredAnswers& gathered = *made;
  scope.Add(&stream, std::move(made));
  return gathered;
}

v1::SessionAnswer& GatheredAnswers::answer() {
  if (answer_ == nullptr) answer_ = NewOnArena<v1::SessionAnswer>(arena_);
  return *answer_;
}

void GatheredAnswers::Add(std::uint64_t id, const absl::Status& status, MemoryBudget::Hold hold) {
  // Operations that the end of the stream cancels are answered on the caller's next stream.
  const bool is_sent = status.code() != absl::StatusCode::kCancelled || !stream_.failed();
  if (is_sent) Append(id, status, std::move(hold));
  ids_.push_back(id);
  answer_ = nullptr;
  arena_.Reset();
}

void GatheredAnswers::Append(std::uint64_t id, const absl::Status& status,
                             MemoryBudget::Hold hold) {
  v1::SessionAnswer& made = answer();
  if (!status.ok()) {
    made.Clear();
    WriteError(status, *made.mutable_error());
  } else if (!Fits(made.ByteSizeLong())) {
    made.Clear();
    WriteError(SessionOverloaded("The answers of this session are not being read. Send the "
                                 "operation again when they are."),
               *made.mutable_error());
  }
  made.set_id(id);
  const std::size_t before = frames_.bytes();
  frames_.Append(made);
  Hold(std::move(hold), frames_.bytes() - before);
}

bool GatheredAnswers::Fits(std::size_t bytes) const {
  return bytes <= kMaxGrantBytes || stream_.HasRoomFor(frames_.bytes() + bytes);
}

void GatheredAnswers::Hold(MemoryBudget::Hold hold, std::size_t bytes) {
  if (hold.bytes() < bytes) {
    others_bytes_ += bytes;
  } else {
    hold.ShrinkTo(bytes);
    holds_.push_back(std::move(hold));
  }
}

GatheredAnswers::Holds GatheredAnswers::TakeHolds() {
  return {std::move(holds_), stream_.budget().HoldUnreadAnswers(others_bytes_)};
}

google::protobuf::ArenaOptions GatheredAnswers::ArenaOptions() {
  google::protobuf::ArenaOptions options;
  options.initial_block = block_.data();
  options.initial_block_size = block_.size();
  return options;
}

}  // namespace idempotency::internal
