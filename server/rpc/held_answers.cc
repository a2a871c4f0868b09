#include "server/rpc/held_answers.h"

#include <algorithm>
#include <utility>

namespace idempotency::internal {

void HeldAnswers::Add(std::size_t bytes, GatheredAnswers::Holds holds) {
  added_bytes_ += bytes;
  const std::size_t others = holds.others.bytes();
  others_ += others;
  if (host_ != nullptr) host_->fetch_add(others, std::memory_order_relaxed);
  held_.push_back({added_bytes_, std::move(holds)});
}

void HeldAnswers::ReleaseWritten(std::size_t unwritten) {
  while (!held_.empty() && (unwritten == 0 || held_.front().end + unwritten <= added_bytes_)) {
    ShrinkOthers(held_.front().holds.others, 0);
    held_.pop_front();
  }
}

void HeldAnswers::Keep(std::size_t writing) {
  auto held = held_.begin();
  for (; held != held_.end() && writing > 0; ++held) {
    for (MemoryBudget::Hold& reply : held->holds.replies) {
      reply.ShrinkTo(writing);
      writing -= reply.bytes();
    }
    ShrinkOthers(held->holds.others, writing);
    writing -= held->holds.others.bytes();
  }
  for (auto rest = held; rest != held_.end(); ++rest) ShrinkOthers(rest->holds.others, 0);
  held_.erase(held, held_.end());
}

void HeldAnswers::ShrinkOthers(MemoryBudget::Hold& hold, std::size_t bytes) {
  const std::size_t released = hold.bytes() - std::min(hold.bytes(), bytes);
  others_ -= released;
  if (host_ != nullptr) host_->fetch_sub(released, std::memory_order_relaxed);
  hold.ShrinkTo(bytes);
}

}  // namespace idempotency::internal
