#include "server/rpc/outgoing_answers.h"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <string>

namespace idempotency::internal {
namespace {

// A frame as gRPC sends it, without copying its bytes.
grpc::ByteBuffer BufferOf(std::string frame) {
  auto owned = std::make_unique<std::string>(std::move(frame));
  std::string* const bytes = owned.release();
  const grpc::Slice slice(
      bytes->data(), bytes->size(),
      [](void* string) { std::unique_ptr<std::string>(static_cast<std::string*>(string)); }, bytes);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

void OutgoingAnswers::Add(const v1::SessionResponse& fields) {
  const std::size_t before = unsent_.bytes();
  unsent_.Append(fields);
  added_bytes_ += unsent_.bytes() - before;
}

void OutgoingAnswers::Add(AnswerFrames&& answers, GatheredAnswers::Holds holds) {
  if (answers.empty()) return;
  added_bytes_ += answers.bytes();
  unsent_.Append(std::move(answers));
  const std::size_t others = holds.others.bytes();
  others_ += others;
  if (host_ != nullptr) host_->fetch_add(others, std::memory_order_relaxed);
  held_.push_back({added_bytes_, std::move(holds)});
}

const grpc::ByteBuffer* OutgoingAnswers::BeginWrite(SteadyTime now) {
  if (write_.has_value() || unsent_.empty()) return nullptr;
  std::string frame = unsent_.Pop();
  write_ = Write{now, frame.size()};
  frame_ = BufferOf(std::move(frame));
  return &frame_;
}

void OutgoingAnswers::WriteEnds() {
  write_.reset();
  frame_.Clear();
  ReleaseWritten();
}

void OutgoingAnswers::DropUnsent() {
  unsent_.Clear();
  Keep(bytes());
}

void OutgoingAnswers::ReleaseWritten() {
  const std::size_t unwritten = bytes();
  while (!held_.empty() && (unwritten == 0 || held_.front().end + unwritten <= added_bytes_)) {
    ShrinkOthers(held_.front().holds.others, 0);
    held_.pop_front();
  }
}

void OutgoingAnswers::Keep(std::size_t bytes) {
  auto held = held_.begin();
  for (; held != held_.end() && bytes > 0; ++held) {
    for (MemoryBudget::Hold& reply : held->holds.replies) {
      reply.ShrinkTo(bytes);
      bytes -= reply.bytes();
    }
    ShrinkOthers(held->holds.others, bytes);
    bytes -= held->holds.others.bytes();
  }
  for (auto rest = held; rest != held_.end(); ++rest) ShrinkOthers(rest->holds.others, 0);
  held_.erase(held, held_.end());
}

void OutgoingAnswers::ShrinkOthers(MemoryBudget::Hold& hold, std::size_t bytes) {
  const std::size_t released = hold.bytes() - std::min(hold.bytes(), bytes);
  others_ -= released;
  if (host_ != nullptr) host_->fetch_sub(released, std::memory_order_relaxed);
  hold.ShrinkTo(bytes);
}

}  // namespace idempotency::internal
