#include "server/tenants/recent_usage.h"

namespace idempotency::internal {
namespace {

// Ends that are so close together share a sum: a life has 16 of them at the least.
constexpr std::int64_t kEndsInALife = 16;

std::int64_t SecondsOf(RecentUsage::Time time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

void Add(const NamespaceUsage& more, NamespaceUsage& sum) {
  sum.records += more.records;
  sum.reply_bytes += more.reply_bytes;
}

}  // namespace

void RecentUsage::Add(const NamespaceUsage& more, Time now, absl::Duration life) {
  At(now);
  const std::int64_t seconds = absl::ToInt64Seconds(absl::Ceil(life, absl::Seconds(1)));
  // A power of two, so that different lives have the same ends.
  std::int64_t grain = 1;
  while (grain * 2 * kEndsInALife <= seconds) grain *= 2;
  const std::int64_t end = ((SecondsOf(now) + seconds) / grain + 1) * grain;
  internal::Add(more, ends_[end]);
  internal::Add(more, sum_);
}

NamespaceUsage RecentUsage::At(Time now) {
  const std::int64_t second = SecondsOf(now);
  while (!ends_.empty() && ends_.begin()->first <= second) {
    const NamespaceUsage& ended = ends_.begin()->second;
    internal::Add({-ended.records, -ended.reply_bytes}, sum_);
    ends_.erase(ends_.begin());
  }
  return sum_;
}

void RecentUsage::Clear() {
  sum_ = {};
  ends_.clear();
}

}  // namespace idempotency::internal
