#ifndef IDEMPOTENCY_SERVER_PROCESS_DESCRIPTOR_LIMIT_H_
#define IDEMPOTENCY_SERVER_PROCESS_DESCRIPTOR_LIMIT_H_

#include <cstdint>

namespace idempotency::internal {

// How many descriptors this process may have open (RLIMIT_NOFILE).
class DescriptorLimit {
 public:
  // The current limit; at most kMaxDescriptors, also where it is unlimited.
  static DescriptorLimit Current();
  // Raises the soft limit to the hard one, logs both, and warns below
  // limits::kFewDescriptors. A soft limit that cannot be raised stays.
  static DescriptorLimit Raise();

  explicit DescriptorLimit(std::int64_t descriptors) : descriptors_(descriptors) {}

  std::int64_t descriptors() const { return descriptors_; }
  // The number that the connections of each of `listeners` listeners may take.
  // limits::kReservedDescriptors stay free for the store's sessions, files and the metrics'
  // connections, or half of the limit if that is less.
  int ForConnections(int listeners = 1) const;

 private:
  std::int64_t descriptors_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_DESCRIPTOR_LIMIT_H_
