#include "server/process/connection_table.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "core/testing/manual_clock.h"
#include "server/files/file_descriptor.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using Verdict = ConnectionTable::Verdict;

sockaddr_storage From(const char* address, int port) {
  sockaddr_storage storage{};
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(storage);
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, address, &ipv4.sin_addr);
  return storage;
}

// One end of a connection; the other is closed.
FileDescriptor OpenSocket() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const FileDescriptor other(ends[1]);
  return FileDescriptor(ends[0]);
}

TEST(ConnectionTableTest, AHostWhoseConnectionWasShutDownGetsNoOtherForAWhile) {
  ManualClock clock;
  ConnectionTable table({10, 10}, clock);
  const FileDescriptor first = OpenSocket();
  const FileDescriptor second = OpenSocket();
  const FileDescriptor third = OpenSocket();
  ASSERT_EQ(table.Admit(first.get(), From("192.0.2.1", 1)), Verdict::kAdmitted);
  ASSERT_TRUE(table.ShutDown(RemoteAddressOf(From("192.0.2.1", 1)).value()));

  EXPECT_EQ(table.Admit(second.get(), From("192.0.2.1", 2)), Verdict::kPenalised);
  EXPECT_EQ(table.Admit(second.get(), From("192.0.2.2", 1)), Verdict::kAdmitted);
  clock.Advance(absl::FromChrono(ConnectionTable::kPenalty) - absl::Microseconds(1));
  EXPECT_EQ(table.Admit(third.get(), From("192.0.2.1", 3)), Verdict::kPenalised);
  clock.Advance(absl::Microseconds(1));
  EXPECT_EQ(table.Admit(third.get(), From("192.0.2.1", 3)), Verdict::kAdmitted);
}

TEST(ConnectionTableTest, AnIpv6PrefixIsPenalisedAsOneHost) {
  ManualClock clock;
  ConnectionTable table({10, 10}, clock);
  const auto from = [](const char* address) {
    sockaddr_storage storage{};
    auto& ipv6 = reinterpret_cast<sockaddr_in6&>(storage);
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(1);
    inet_pton(AF_INET6, address, &ipv6.sin6_addr);
    return storage;
  };
  const FileDescriptor first = OpenSocket();
  const FileDescriptor second = OpenSocket();
  ASSERT_EQ(table.Admit(first.get(), from("2001:db8::1")), Verdict::kAdmitted);
  ASSERT_TRUE(table.ShutDown(RemoteAddressOf(from("2001:db8::1")).value()));
  EXPECT_EQ(table.Admit(second.get(), from("2001:db8::2")), Verdict::kPenalised);
  EXPECT_EQ(table.Admit(second.get(), from("2001:db8:0:1::2")), Verdict::kAdmitted);
}

std::vector<std::string> RecentOf(const ConnectionTable& table) {
  std::vector<std::string> texts;
  for (const RemoteAddress& remote : table.Recent()) texts.push_back(TextOf(remote));
  return texts;
}

TEST(ConnectionTableTest, RecentAreTheNewestThatAreOpen) {
  ManualClock clock;
  ConnectionTable table({10, 10}, clock);
  std::vector<FileDescriptor> sockets;
  for (int port = 1; port <= 6; ++port) {
    sockets.push_back(OpenSocket());
    ASSERT_EQ(table.Admit(sockets.back().get(), From("192.0.2.1", port)), Verdict::kAdmitted);
    clock.Advance(absl::Milliseconds(1));
  }
  sockets[4].Close();
  EXPECT_THAT(RecentOf(table),
              ElementsAre("192.0.2.1:6", "192.0.2.1:4", "192.0.2.1:3", "192.0.2.1:2"));
  clock.Advance(absl::FromChrono(ConnectionTable::kRecent) - absl::Milliseconds(2));
  EXPECT_THAT(RecentOf(table), ElementsAre("192.0.2.1:6"));
}

TEST(ConnectionTableTest, AnIpv6AddressAsTextHasBrackets) {
  sockaddr_storage storage{};
  auto& ipv6 = reinterpret_cast<sockaddr_in6&>(storage);
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(4000);
  inet_pton(AF_INET6, "2001:db8::1", &ipv6.sin6_addr);
  EXPECT_EQ(TextOf(RemoteAddressOf(storage).value()), "[2001:db8::1]:4000");
}

}  // namespace
}  // namespace idempotency::internal
