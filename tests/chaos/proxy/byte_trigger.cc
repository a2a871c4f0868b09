#include "tests/chaos/proxy/byte_trigger.h"

#include <algorithm>

namespace idempotency::internal::chaos {

ByteTrigger ByteTrigger::AfterBytes(std::size_t count) { return ByteTrigger(count, ""); }

ByteTrigger ByteTrigger::AfterText(std::string text) { return ByteTrigger(0, std::move(text)); }

std::optional<std::size_t> ByteTrigger::Feed(std::string_view piece) {
  if (text_.empty()) {
    if (piece.size() >= left_) return left_;
    left_ -= piece.size();
    return std::nullopt;
  }
  const std::size_t before = tail_.size();
  tail_.append(piece);
  const std::size_t found = tail_.find(text_);
  if (found != std::string::npos) return found + text_.size() - before;
  tail_.erase(0, tail_.size() - std::min(tail_.size(), text_.size() - 1));
  return std::nullopt;
}

}  // namespace idempotency::internal::chaos
