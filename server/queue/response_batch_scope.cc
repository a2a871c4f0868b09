#include "server/queue/response_batch_scope.h"

#include <cstddef>

namespace idempotency::internal {
namespace {

thread_local ResponseBatchScope* current = nullptr;

}  // namespace

ResponseBatchScope::ResponseBatchScope() : outermost_(current == nullptr) {
  if (outermost_) current = this;
}

ResponseBatchScope::~ResponseBatchScope() {
  if (!outermost_) return;
  // By index: a flush may lead to further answers on this thread.
  for (std::size_t i = 0; i < flushables_.size(); ++i) {
    const std::unique_ptr<Flushable> flushable = std::move(flushables_[i].second);
    flushables_[i].first = nullptr;
    flushable->Flush();
  }
  current = nullptr;
}

ResponseBatchScope* ResponseBatchScope::Current() { return current; }

ResponseBatchScope::Flushable* ResponseBatchScope::Find(const void* owner) const {
  // Answers of one owner are mostly adjacent.
  for (auto flushable = flushables_.rbegin(); flushable != flushables_.rend(); ++flushable) {
    if (flushable->first == owner) return flushable->second.get();
  }
  return nullptr;
}

void ResponseBatchScope::Add(const void* owner, std::unique_ptr<Flushable> flushable) {
  flushables_.emplace_back(owner, std::move(flushable));
}

}  // namespace idempotency::internal
