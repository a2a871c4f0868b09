#include "server/answer_scope.h"

#include <cstddef>

namespace idempotency::internal {
namespace {

thread_local AnswerScope* current = nullptr;

}  // namespace

AnswerScope::AnswerScope() : outermost_(current == nullptr) {
  if (outermost_) current = this;
}

AnswerScope::~AnswerScope() {
  if (!outermost_) return;
  // By index: a flush may lead to further answers on this thread.
  for (std::size_t i = 0; i < gatherers_.size(); ++i) {
    const std::unique_ptr<Gatherer> gatherer = std::move(gatherers_[i].second);
    gatherers_[i].first = nullptr;
    gatherer->Flush();
  }
  current = nullptr;
}

AnswerScope* AnswerScope::Current() { return current; }

AnswerScope::Gatherer* AnswerScope::Find(const void* owner) const {
  // Answers of one owner mostly stand together.
  for (auto gatherer = gatherers_.rbegin(); gatherer != gatherers_.rend(); ++gatherer) {
    if (gatherer->first == owner) return gatherer->second.get();
  }
  return nullptr;
}

void AnswerScope::Add(const void* owner, std::unique_ptr<Gatherer> gatherer) {
  gatherers_.emplace_back(owner, std::move(gatherer));
}

}  // namespace idempotency::internal
