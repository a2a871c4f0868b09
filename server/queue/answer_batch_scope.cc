#include "server/queue/answer_batch_scope.h"

#include <cstddef>

namespace idempotency::internal {
namespace {

thread_local AnswerBatchScope* current = nullptr;

}  // namespace

AnswerBatchScope::AnswerBatchScope() : outermost_(current == nullptr) {
  if (outermost_) current = this;
}

AnswerBatchScope::~AnswerBatchScope() {
  if (!outermost_) return;
  // By index: a flush may lead to further answers on this thread.
  for (std::size_t i = 0; i < flushables_.size(); ++i) {
    const std::unique_ptr<Flushable> flushable = std::move(flushables_[i].second);
    flushables_[i].first = nullptr;
    flushable->Flush();
  }
  current = nullptr;
}

AnswerBatchScope* AnswerBatchScope::Current() { return current; }

AnswerBatchScope::Flushable* AnswerBatchScope::Find(const void* owner) const {
  // Answers of one owner are mostly adjacent.
  for (auto flushable = flushables_.rbegin(); flushable != flushables_.rend(); ++flushable) {
    if (flushable->first == owner) return flushable->second.get();
  }
  return nullptr;
}

void AnswerBatchScope::Add(const void* owner, std::unique_ptr<Flushable> flushable) {
  flushables_.emplace_back(owner, std::move(flushable));
}

}  // namespace idempotency::internal
