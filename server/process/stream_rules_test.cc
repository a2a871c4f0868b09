#include "server/process/stream_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace idempotency::internal {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kOne = {127, 0, 0, 1};
const std::string kOther = {127, 0, 0, 2};

// Connections are numbered from 1; the port of each remote end is its number.
class StreamRulesTest : public ::testing::Test {
 protected:
  void Add(const std::string& host, std::int64_t open, std::int64_t failed = 0) {
    SocketStreams streams;
    streams.socket = static_cast<std::int64_t>(all_.size()) + 1;
    streams.begun = open + failed;
    streams.failed = failed;
    all_.push_back(streams);
    hosts_[streams.socket] = host;
  }
  std::vector<RemoteAddress> Over(std::chrono::duration<double> since = seconds(1)) {
    return rules_.Over(all_, since);
  }

  std::vector<SocketStreams> all_;
  std::map<std::int64_t, std::string> hosts_;
  std::map<std::string, int> seen_;
  StreamRules rules_{{10, 100},
                     {[this](const SocketStreams& streams) -> std::optional<RemoteAddress> {
                        const std::string& host = hosts_[streams.socket];
                        if (host.empty()) return std::nullopt;
                        return RemoteAddress(host, static_cast<int>(streams.socket));
                      },
                      [this](const std::string& host) { return seen_[host]; }}};
};

TEST_F(StreamRulesTest, MoreStreamsThanPermitted) {
  Add(kOne, 20);
  EXPECT_THAT(Over(), IsEmpty());
  Add(kOne, 21);
  EXPECT_THAT(Over(), ElementsAre(RemoteAddress(kOne, 2)));
}

// Such as calls that their client has cancelled while the store does not answer.
TEST_F(StreamRulesTest, CallsThatCodeHasSeenDoNotCount) {
  Add(kOne, 70);
  seen_[kOne] = 50;
  EXPECT_THAT(Over(), IsEmpty());
  seen_[kOne] = 49;
  EXPECT_THAT(Over(), SizeIs(1));
}

TEST_F(StreamRulesTest, StreamsThatFailFasterThanAClientThatKeepsToTheLimitCancels) {
  Add(kOne, 0, 1'000);
  EXPECT_THAT(Over(seconds(3)), IsEmpty());
  all_[0].failed += 401;
  all_[0].begun += 401;
  EXPECT_THAT(Over(seconds(1)), SizeIs(1));
  all_[0].failed += 800;
  all_[0].begun += 800;
  EXPECT_THAT(Over(seconds(2)), IsEmpty());
}

TEST_F(StreamRulesTest, ANewConnectionHasFailedSinceTheLastLook) {
  EXPECT_THAT(Over(), IsEmpty());
  Add(kOne, 0, 401);
  EXPECT_THAT(Over(seconds(1)), SizeIs(1));
}

TEST_F(StreamRulesTest, AShortTimeIsNoRate) {
  Add(kOne, 0, 15);
  EXPECT_THAT(Over(seconds(0)), IsEmpty());
}

TEST_F(StreamRulesTest, ManyConnectionsThatKeepToTheLimit) {
  for (int i = 0; i < 3; ++i) Add(kOther, 10);
  for (int i = 0; i < 9; ++i) Add(kOne, 10);
  const std::vector<RemoteAddress> over = Over();
  EXPECT_THAT(over, SizeIs(2));
  for (const RemoteAddress& remote : over) EXPECT_EQ(remote.first, kOne);
}

TEST_F(StreamRulesTest, AHostWhoseCallsAreServedKeepsItsConnections) {
  for (int i = 0; i < 6; ++i) Add(kOther, 10);
  for (int i = 0; i < 20; ++i) Add(kOne, 10);
  seen_[kOne] = 200;
  EXPECT_THAT(Over(), IsEmpty());
  for (int i = 0; i < 6; ++i) Add(kOther, 10);
  const std::vector<RemoteAddress> over = Over();
  EXPECT_THAT(over, SizeIs(2));
  for (const RemoteAddress& remote : over) EXPECT_EQ(remote.first, kOther);
}

TEST_F(StreamRulesTest, ConnectionsThatCannotBeClosedAreLeft) {
  Add("", 1'000);
  EXPECT_THAT(Over(), IsEmpty());
}

}  // namespace
}  // namespace idempotency::internal
