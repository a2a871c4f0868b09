#include "server/process/network_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

struct Good {
  std::string text;
  std::string host;
  int port;
  std::string unix_path;
  bool local;
};

TEST(NetworkAddressTest, ReadsWhatItPrints) {
  const Good cases[] = {
      {"127.0.0.1:7411", "127.0.0.1", 7411, "", true},
      {"127.8.9.1:0", "127.8.9.1", 0, "", true},
      {"0.0.0.0:65535", "0.0.0.0", 65535, "", false},
      {"localhost:1", "localhost", 1, "", true},
      {"db-1.example_net:80", "db-1.example_net", 80, "", false},
      {"[::1]:7411", "::1", 7411, "", true},
      {"[::]:7411", "::", 7411, "", false},
      {"[fe80::1%eth0]:7411", "fe80::1%eth0", 7411, "", false},
      {"unix:/run/d.sock", "", 0, "/run/d.sock", true},
      {"unix:d.sock", "", 0, "d.sock", true},
  };
  for (const Good& good : cases) {
    SCOPED_TRACE(good.text);
    const absl::StatusOr<NetworkAddress> address = NetworkAddress::Parse(good.text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->host, good.host);
    EXPECT_EQ(address->port, good.port);
    EXPECT_EQ(address->unix_path, good.unix_path);
    EXPECT_EQ(address->IsLocal(), good.local);
    EXPECT_EQ(address->ToString(), good.text);
  }
}

TEST(NetworkAddressTest, ReportsTheFault) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "is not an address"},
      {"7411", "is not an address"},
      {"::1:7411", "is not an address"},
      {"[::1]", "is not an address"},
      {"[127.0.0.1]:7411", "is not an address"},
      {":7411", "has no usable host"},
      {"http://host:7411", "is not an address"},
      {"ho st:7411", "has no usable host"},
      {"host:", "has no port"},
      {"host:65536", "has no port"},
      {"host:-1", "has no port"},
      {"host:+1", "has no port"},
      {"host: 1", "has no port"},
      {"host:http", "has no port"},
      {"unix:", "has no path"},
      {"unix:/" + std::string(107, 'a'), "over 107 bytes"},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    const absl::Status status = NetworkAddress::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:7411"));
  }
}

TEST(NetworkAddressTest, TheLongestUnixPathIsTaken) {
  EXPECT_TRUE(NetworkAddress::Parse("unix:/" + std::string(106, 'a')).ok());
}

}  // namespace
}  // namespace idempotency::internal
