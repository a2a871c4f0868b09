#ifndef IDEMPOTENCY_SERVER_QUEUE_NAMESPACE_SHARES_H_
#define IDEMPOTENCY_SERVER_QUEUE_NAMESPACE_SHARES_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

#include "core/absl_view.h"

namespace idempotency::internal {

// The share of each namespace in a limited resource. A namespace takes no more
// than it leaves to the others: alone up to half of the whole, two up to a third
// each, and so on. So there is always room for one more, regardless of their
// number and behaviour.
//
// Not thread-safe.
class NamespaceShares {
 public:
  // Whether `name_space` may take `amount` of the free amount `left`. A namespace that
  // has nothing may take all of it, since a large amount cannot be split.
  bool MayTake(std::string_view name_space, std::size_t amount, std::size_t left) const {
    if (amount > left) return false;
    const std::size_t its = Of(name_space);
    return its == 0 || its + amount <= left - amount;
  }
  void Add(std::string_view name_space, std::size_t amount) {
    // Remove() ends no share of nothing.
    if (amount == 0) return;
    shares_[AbslView(name_space)] += amount;
    total_ += amount;
  }
  // An amount that was added before, or a part of it.
  void Remove(std::string_view name_space, std::size_t amount) {
    total_ -= amount;
    const auto share = shares_.find(AbslView(name_space));
    share->second -= amount;
    if (share->second == 0) shares_.erase(share);
  }

  std::size_t Of(std::string_view name_space) const {
    const auto share = shares_.find(AbslView(name_space));
    return share == shares_.end() ? 0 : share->second;
  }
  std::size_t total() const { return total_; }
  // The number of namespaces that have a share.
  std::size_t namespaces() const { return shares_.size(); }

 private:
  absl::flat_hash_map<std::string, std::size_t> shares_;
  std::size_t total_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_NAMESPACE_SHARES_H_
