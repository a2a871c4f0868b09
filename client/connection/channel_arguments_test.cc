#include "grpc_idempotency/client/channel_arguments.h"

#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/ping_timeout.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

std::map<std::string, int> Integers(const grpc::ChannelArguments& arguments) {
  const grpc_channel_args args = arguments.c_channel_args();
  std::map<std::string, int> integers;
  for (std::size_t i = 0; i < args.num_args; ++i) {
    if (args.args[i].type == GRPC_ARG_INTEGER) {
      integers[args.args[i].key] = args.args[i].value.integer;
    }
  }
  return integers;
}

TEST(ChannelArgumentsTest, ADaemonThatComesBackIsFoundWithinSeconds) {
  const auto integers = Integers(IdempotencydChannelArguments());
  EXPECT_LE(integers.at(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS), 100);
  EXPECT_LE(integers.at(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS), 1000);
  EXPECT_LE(integers.at(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS), 5000);
}

// gRPC limits one attempt to connect to this time, despite the argument's name: a short one would
// cut TLS handshakes off, a long one would wait for a host that is down.
TEST(ChannelArgumentsTest, AnAttemptToConnectHasTimeForAHandshakeAndNoMore) {
  const int timeout =
      Integers(IdempotencydChannelArguments()).at(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS);
  EXPECT_GE(timeout, 2000);
  EXPECT_LE(timeout, 10'000);
}

TEST(ChannelArgumentsTest, ASilentPeerIsDetectedAndAnIdleOneIsNotDisconnected) {
  const auto integers = Integers(IdempotencydChannelArguments());
  EXPECT_LE(integers.at(GRPC_ARG_KEEPALIVE_TIME_MS) + integers.at(GRPC_ARG_KEEPALIVE_TIMEOUT_MS),
            30'000);
  EXPECT_EQ(integers.at(kPingTimeoutArgument), integers.at(GRPC_ARG_KEEPALIVE_TIMEOUT_MS));
  EXPECT_EQ(integers.at(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS), 0);
}

// A stream that replaces one on a draining daemon is opened at another.
TEST(ChannelArgumentsTest, SeveralAddressesTakeTurns) {
  const grpc::ChannelArguments arguments = IdempotencydChannelArguments();
  const grpc_channel_args args = arguments.c_channel_args();
  std::string policy;
  for (std::size_t i = 0; i < args.num_args; ++i) {
    if (args.args[i].key == std::string(GRPC_ARG_LB_POLICY_NAME)) {
      policy = args.args[i].value.string;
    }
  }
  EXPECT_EQ(policy, "round_robin");
}

TEST(ChannelArgumentsTest, TheLargestMessageIsReceived) {
  EXPECT_EQ(Integers(IdempotencydChannelArguments()).at(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH),
            static_cast<int>(limits::kMaxMessageBytes));
}

}  // namespace
}  // namespace idempotency::internal
