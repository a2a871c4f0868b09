#include "server/queue/memory_budget.h"

#include <algorithm>
#include <utility>

#include "server/limits.h"

namespace idempotency::internal {

MemoryBudget::Hold& MemoryBudget::Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  Release();
  budget_ = other.budget_;
  for_ = other.for_;
  name_space_ = std::move(other.name_space_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void MemoryBudget::Hold::ShrinkTo(std::size_t bytes) {
  if (bytes >= bytes_) return;
  budget_->GiveBack(*this, bytes_ - bytes);
  bytes_ = bytes;
}

void MemoryBudget::Add(std::size_t bytes) {
  if (bytes == 0) return;
  observer_.MemoryHeldChanged(held_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
}

void MemoryBudget::Remove(std::size_t bytes) {
  if (bytes == 0) return;
  observer_.MemoryHeldChanged(held_.fetch_sub(bytes, std::memory_order_relaxed) - bytes);
}

std::size_t MemoryBudget::WithoutAnswers(std::size_t held) const {
  return held - std::min(held, answers_.load(std::memory_order_relaxed));
}

std::size_t MemoryBudget::LeftToEndOfWork(std::size_t held, std::size_t bytes) const {
  const std::size_t most = bytes > kSmallOperationBytes ? max_of_large() : max_bytes_;
  return most - std::min(WithoutAnswers(held), most);
}

bool MemoryBudget::Fits(std::size_t held, std::size_t bytes, bool brings_work) const {
  if (brings_work) {
    const std::size_t apart = std::min({unread_answers(), unread_answers_pool(), held});
    return held == apart || held - apart + bytes <= max_bytes_ - max_bytes_ / 5;
  }
  return WithoutAnswers(held) == 0 || bytes <= LeftToEndOfWork(held, bytes);
}

bool MemoryBudget::TryAdd(std::size_t bytes, bool brings_work) {
  std::size_t held = this->held();
  do {
    if (!Fits(held, bytes, brings_work)) return false;
  } while (!held_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
  observer_.MemoryHeldChanged(held + bytes);
  return true;
}

std::optional<MemoryBudget::Hold> MemoryBudget::TryHoldOperation(std::string_view name_space,
                                                                 std::size_t bytes,
                                                                 bool brings_work) {
  if (brings_work) return TryHoldRequest(bytes, brings_work);
  MutexLock lock(mutex_);
  const std::size_t held = this->held();
  if (WithoutAnswers(held) > 0 &&
      !ends_of_work_.MayTake(name_space, bytes, LeftToEndOfWork(held, bytes))) {
    return std::nullopt;
  }
  if (!TryAdd(bytes, brings_work)) return std::nullopt;
  ends_of_work_.Add(name_space, bytes);
  return Hold(*this, Hold::For::kEndOfWork, name_space, bytes);
}

std::optional<MemoryBudget::Hold> MemoryBudget::TryHoldRequest(std::size_t bytes,
                                                               bool brings_work) {
  if (!TryAdd(bytes, brings_work)) return std::nullopt;
  return Hold(*this, Hold::For::kRequest, "", bytes);
}

bool MemoryBudget::TryAssign(Hold& request, std::string_view owner) {
  MutexLock lock(mutex_);
  const std::size_t most = max_bytes_ / kAdminShare;
  const std::size_t left = most - std::min(admins_.total(), most);
  if (admins_.total() > 0 && !admins_.MayTake(owner, request.bytes_, left)) return false;
  admins_.Add(owner, request.bytes_);
  request.for_ = Hold::For::kAdmin;
  request.name_space_ = owner;
  return true;
}

std::optional<MemoryBudget::Hold> MemoryBudget::TryHoldReply(std::string_view name_space,
                                                             std::size_t bytes,
                                                             ShedReason* refusal) {
  return TryHold(Hold::For::kReply, name_space, bytes, refusal);
}

std::optional<MemoryBudget::Hold> MemoryBudget::TryHoldWaiter(std::string_view name_space,
                                                              std::size_t bytes) {
  return TryHold(Hold::For::kWaiter, name_space, bytes, /*refusal=*/nullptr);
}

MemoryBudget::Hold MemoryBudget::HoldAnswer(std::size_t bytes) {
  answers_.fetch_add(bytes, std::memory_order_relaxed);
  Add(bytes);
  return Hold(*this, Hold::For::kAnswer, "", bytes);
}

MemoryBudget::Hold MemoryBudget::HoldUnreadAnswers(std::size_t bytes) {
  unread_answers_.fetch_add(bytes, std::memory_order_relaxed);
  Hold hold = HoldAnswer(bytes);
  hold.for_ = Hold::For::kUnreadAnswers;
  return hold;
}

std::size_t MemoryBudget::UnreadAnswersAllowance() const {
  const std::size_t left = max_bytes_ / 2 - std::min(unread_answers(), max_bytes_ / 2);
  return std::max(left / kAllowanceShare, limits::kMinSessionAnswersBytes);
}

std::optional<MemoryBudget::Hold> MemoryBudget::TryHold(Hold::For held_for,
                                                        std::string_view name_space,
                                                        std::size_t bytes, ShedReason* refusal) {
  MutexLock lock(mutex_);
  const std::size_t held = this->held();
  const std::size_t left_of_all = max_of_large() - std::min(held, max_of_large());
  const std::size_t left_of_half = max_bytes_ / 2 - std::min(shares_.total(), max_bytes_ / 2);
  const bool only_reply = held_for == Hold::For::kReply && replies_ == 0;
  if (!only_reply && (bytes > left_of_all || !shares_.MayTake(name_space, bytes, left_of_half))) {
    const std::size_t its = shares_.Of(name_space);
    const bool is_its_own = bytes <= std::min(left_of_all, left_of_half) + its;
    if (refusal != nullptr) *refusal = is_its_own ? ShedReason::kReplies : ShedReason::kQueue;
    return std::nullopt;
  }
  shares_.Add(name_space, bytes);
  if (held_for == Hold::For::kReply) replies_ += bytes;
  Add(bytes);
  return Hold(*this, held_for, name_space, bytes);
}

void MemoryBudget::GiveBack(const Hold& hold, std::size_t bytes) {
  Remove(bytes);
  switch (hold.for_) {
    case Hold::For::kRequest:
      return;
    case Hold::For::kUnreadAnswers:
      unread_answers_.fetch_sub(bytes, std::memory_order_relaxed);
      [[fallthrough]];
    case Hold::For::kAnswer:
      answers_.fetch_sub(bytes, std::memory_order_relaxed);
      return;
    case Hold::For::kEndOfWork: {
      MutexLock lock(mutex_);
      ends_of_work_.Remove(hold.name_space_, bytes);
      return;
    }
    case Hold::For::kAdmin: {
      MutexLock lock(mutex_);
      admins_.Remove(hold.name_space_, bytes);
      return;
    }
    case Hold::For::kReply:
    case Hold::For::kWaiter:
      break;
  }
  MutexLock lock(mutex_);
  shares_.Remove(hold.name_space_, bytes);
  if (hold.for_ == Hold::For::kReply) replies_ -= bytes;
}

}  // namespace idempotency::internal
