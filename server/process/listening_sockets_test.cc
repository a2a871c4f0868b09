#include "server/process/listening_sockets.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ListeningSockets> Bind(const std::string& address) {
  return ListeningSockets::Bind(*NetworkAddress::Parse(address));
}

bool Reaches(const ListeningSockets& sockets) {
  const SocketAddress to = sockets.Bound();
  const FileDescriptor socket(::socket(to.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(socket.get(), reinterpret_cast<const sockaddr*>(&to.address), to.size) == 0;
}

bool ReachesOverIpv4(std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
}

TEST(ListeningSocketsTest, GetsAPort) {
  const auto sockets = Bind("127.0.0.1:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_NE(sockets->address().port, 0);
  EXPECT_TRUE(Reaches(*sockets));
}

TEST(ListeningSocketsTest, WildcardsAndNamesTakeIpv4) {
  for (const char* host : {"0.0.0.0", "[::]", "localhost"}) {
    const auto sockets = Bind(absl::StrCat(host, ":0"));
    // A machine without IPv6 has no [::].
    if (!sockets.ok() && std::string(host) == "[::]") continue;
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    EXPECT_TRUE(ReachesOverIpv4(sockets->address().port)) << host;
  }
}

TEST(ListeningSocketsTest, APortIsNeverShared) {
  const auto first = Bind("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const auto second = Bind(first->address().ToString());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(absl::StrCat("cannot listen on ", first->address().ToString())));
}

TEST(ListeningSocketsTest, AUnixSocketIsNeverTakenFromAnother) {
  const testing::TempFolder folder;
  const std::string path = folder.File("d.sock");
  {
    const auto first = Bind("unix:" + path);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(Reaches(*first));
    EXPECT_FALSE(Bind("unix:" + path).ok());
    EXPECT_TRUE(Reaches(*first));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ListeningSocketsTest, AUnixSocketOfAnEndedProcessIsReplaced) {
  const testing::TempFolder folder;
  const std::string path = folder.File("d.sock");
  const std::string kept = folder.File("kept");
  {
    const auto ended = Bind("unix:" + path);
    ASSERT_TRUE(ended.ok());
    // As after kill -9: no process listens, and the file is still there.
    std::filesystem::rename(path, kept);
  }
  std::filesystem::rename(kept, path);
  const auto next = Bind("unix:" + path);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(Reaches(*next));
}

}  // namespace
}  // namespace idempotency::internal
