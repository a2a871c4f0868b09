#include "tests/chaos/proxy/link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace idempotency::internal::chaos {
namespace {

// FNV-1a: the same in every build, as std::hash is not.
std::uint64_t HashOf(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Link>> Link::Open(const std::string& text, std::uint64_t seed) {
  const std::vector<std::string> parts = absl::StrSplit(text, '=');
  if (parts.size() != 3 || parts[0].empty()) {
    return absl::InvalidArgumentError(absl::StrCat("not NAME=LISTEN=TARGET: ", text));
  }
  const absl::StatusOr<SocketAddress> wanted = SocketAddress::Parse(parts[1]);
  if (!wanted.ok()) return wanted.status();
  const absl::StatusOr<SocketAddress> target = SocketAddress::Parse(parts[2]);
  if (!target.ok()) return target.status();
  absl::StatusOr<FileDescriptor> listener = wanted->Listen();
  if (!listener.ok()) return listener.status();
  const absl::StatusOr<SocketAddress> address = SocketAddress::BoundTo(listener->get());
  if (!address.ok()) return address.status();
  return std::unique_ptr<Link>(
      new Link(parts[0], *address, *target, *std::move(listener), seed ^ HashOf(parts[0])));
}

Link::Link(std::string name, const SocketAddress& address, const SocketAddress& target,
           FileDescriptor listener, std::uint64_t seed)
    : name_(std::move(name)), address_(address), target_(target), listener_(std::move(listener)) {
  state_.random.seed(seed);
}

void Link::Cut() {
  for (const auto& connection : connections_) connection->Reset();
}

absl::Status Link::Refuse() {
  if (state_.faults.refuse) return absl::OkStatus();
  state_.faults.refuse = true;
  if (address_.is_unix()) {
    listener_.Close();
    return absl::OkStatus();
  }
  // Stops listening and keeps the port, so that no other process gets it.
  if (shutdown(listener_.get(), SHUT_RD) != 0) {
    return absl::InternalError(absl::StrCat("shutdown: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void Link::Delay(std::chrono::milliseconds delay, std::chrono::milliseconds jitter) {
  state_.faults.delay = delay;
  state_.faults.jitter = jitter;
}

void Link::Set(CutRule rule) {
  state_.faults.cut = std::move(rule);
  ++state_.rule_number;
}

absl::Status Link::Heal() {
  const bool refused = state_.faults.refuse;
  state_.faults = LinkFaults();
  for (const auto& connection : connections_) {
    if (connection->lost_bytes()) connection->Reset();
  }
  if (!refused) return absl::OkStatus();
  if (!address_.is_unix()) {
    if (listen(listener_.get(), 512) == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("listen: ", std::strerror(errno)));
  }
  absl::StatusOr<FileDescriptor> listener = address_.Listen();
  if (!listener.ok()) return listener.status();
  listener_ = *std::move(listener);
  return absl::OkStatus();
}

std::string Link::Stats() const {
  const LinkStats& stats = state_.stats;
  return absl::StrCat(
      R"({"name":")", name_, R"(","target":")", target_.ToString(), R"(","accepted":)",
      stats.accepted, R"(,"open":)", connections_.size(), R"(,"unreachable":)", stats.unreachable,
      R"(,"cut":)", stats.cut, R"(,"fired":)", stats.fired, R"(,"armed":)",
      state_.faults.cut.has_value() ? state_.faults.cut->times : 0, R"(,"delayed_ms":)",
      stats.delayed_ms, R"(,"bytes_up":)", stats.forwarded[Direction::kUp], R"(,"bytes_down":)",
      stats.forwarded[Direction::kDown], R"(,"lost_up":)", stats.lost[Direction::kUp],
      R"(,"lost_down":)", stats.lost[Direction::kDown], "}");
}

void Link::AddTo(PollSet& poll) {
  connections_.erase(std::remove_if(connections_.begin(), connections_.end(),
                                    [](const auto& connection) { return connection->closed(); }),
                     connections_.end());
  slot_ = poll.Add(listener_.get(), state_.faults.refuse ? short{0} : POLLIN);
  for (const auto& connection : connections_) connection->AddTo(poll);
}

void Link::Work(const PollSet& poll) {
  for (const auto& connection : connections_) {
    if (!connection->closed()) connection->Work(poll);
  }
  if (poll.Ready(slot_) != 0 && !state_.faults.refuse) Accept();
}

void Link::Accept() {
  while (true) {
    FileDescriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!client.is_open()) return;
    if (!address_.is_unix()) {
      const int on = 1;
      setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    ++state_.stats.accepted;
    absl::StatusOr<FileDescriptor> target = target_.StartConnect();
    if (!target.ok()) {
      ++state_.stats.unreachable;
      continue;
    }
    connections_.push_back(
        std::make_unique<Connection>(std::move(client), *std::move(target), &state_));
  }
}

}  // namespace idempotency::internal::chaos
