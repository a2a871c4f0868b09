#include "server/process/port_probe.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "core/mutex.h"
#include "server/process/connection_acceptor.h"
#include "server/process/listening_sockets.h"
#include "tests/support/held_port.h"

namespace idempotency::internal {
namespace {

constexpr PortProbe::Intervals kQuick = {absl::Milliseconds(5), absl::Milliseconds(200)};

// Receives the probe's reports.
class Report {
 public:
  void Take(const absl::Status& why) {
    MutexLock lock(mutex_);
    why_ = why;
    changed_.NotifyAll();
  }
  std::optional<absl::Status> Await() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mutex_);
    while (!why_.has_value() && changed_.WaitUntil(lock, deadline)) {
    }
    return why_;
  }
  bool empty() const {
    MutexLock lock(mutex_);
    return !why_.has_value();
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<absl::Status> why_ ABSL_GUARDED_BY(mutex_);
};

ListeningSockets Bind() {
  return ListeningSockets::Bind(*NetworkAddress::Parse("127.0.0.1:0")).value();
}

TEST(PortProbeTest, ReportsAPortThatAcceptsNothing) {
  const ListeningSockets sockets = Bind();
  Report report;
  const PortProbe probe(
      sockets.address(), sockets.Bound(), kQuick, [] { return 0; },
      [&report](const absl::Status& why) { report.Take(why); });
  const auto why = report.Await();
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->message(),
            sockets.address().ToString() +
                " no longer accepts connections, although this process runs; restart idempotencyd");
}

TEST(PortProbeTest, ReportsAPortWithoutAListener) {
  const testing::HeldPort held;
  auto sockets =
      std::make_optional(ListeningSockets::Bind(*NetworkAddress::Parse(held.address())).value());
  const NetworkAddress address = sockets->address();
  const SocketAddress bound = sockets->Bound();
  sockets.reset();
  Report report;
  // Longer than the test would wait: the refusal is enough.
  const PortProbe probe(
      address, bound, {absl::Milliseconds(5), absl::Minutes(10)}, [] { return 0; },
      [&report](const absl::Status& why) { report.Take(why); });
  EXPECT_TRUE(report.Await().has_value());
}

TEST(PortProbeTest, FindsAPortThatAccepts) {
  Observer nobody;
  ListeningSockets sockets = Bind();
  const NetworkAddress address = sockets.address();
  const SocketAddress bound = sockets.Bound();
  Report report;
  {
    ConnectionAcceptor acceptor(
        std::move(sockets), {100, 100},
        {[](int socket, int) { FileDescriptor closed(socket); }, [](const absl::Status&) {}},
        nobody);
    const PortProbe probe(
        address, bound, {absl::Milliseconds(1), absl::Seconds(20)},
        [&acceptor] { return acceptor.accepted(); },
        [&report](const absl::Status& why) { report.Take(why); });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (acceptor.accepted() < 5 && std::chrono::steady_clock::now() < deadline) {
    }
    EXPECT_GE(acceptor.accepted(), 5);
  }
  EXPECT_TRUE(report.empty());
}

}  // namespace
}  // namespace idempotency::internal
