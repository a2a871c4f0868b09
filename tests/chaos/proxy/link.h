#ifndef IDEMPOTENCY_TESTS_CHAOS_PROXY_LINK_H_
#define IDEMPOTENCY_TESTS_CHAOS_PROXY_LINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "tests/chaos/proxy/connection.h"
#include "tests/chaos/proxy/file_descriptor.h"
#include "tests/chaos/proxy/link_faults.h"
#include "tests/chaos/proxy/poll_set.h"
#include "tests/chaos/proxy/socket_address.h"

namespace idempotency::internal::chaos {

// A link from an address of the proxy's to a target, and its faults. Thread-compatible.
class Link {
 public:
  // `text`: NAME=LISTEN=TARGET. The draws of a delay depend on `seed` and the name alone.
  static absl::StatusOr<std::unique_ptr<Link>> Open(const std::string& text, std::uint64_t seed);

  const std::string& name() const { return name_; }
  const SocketAddress& address() const { return address_; }

  // Resets every connection.
  void Cut();
  // New connections are refused; existing ones stay.
  absl::Status Refuse();
  // Bytes of that direction stay in place, in every connection.
  void Stall(Direction direction) { state_.faults.stalled[direction] = true; }
  // Every piece arrives later by `delay` and up to `jitter`.
  void Delay(std::chrono::milliseconds delay, std::chrono::milliseconds jitter);
  // Applies from here, on the connection that reaches it first.
  void Set(CutRule rule);
  // Bytes of that direction are discarded. A connection that lost some is reset when the link
  // heals.
  void Vanish(Direction direction) { state_.faults.vanish[direction] = true; }
  // No faults any more.
  absl::Status Heal();
  // The target of new connections.
  void Retarget(const SocketAddress& target) { target_ = target; }

  // One JSON object.
  std::string Stats() const;

  void AddTo(PollSet& poll);
  void Work(const PollSet& poll);

 private:
  Link(std::string name, const SocketAddress& address, const SocketAddress& target,
       FileDescriptor listener, std::uint64_t seed);
  void Accept();

  const std::string name_;
  const SocketAddress address_;
  SocketAddress target_;
  FileDescriptor listener_;
  PollSet::Slot slot_ = PollSet::kNone;
  LinkState state_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace idempotency::internal::chaos

#endif  // IDEMPOTENCY_TESTS_CHAOS_PROXY_LINK_H_
