#include "grpc_idempotency/client/pinned_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/testing/till_server.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;

TEST(PinnedKeyTest, AKeyThatNoGuardWouldTakeIsRefusedAndNotSent) {
  testdata::TillServer server;
  const auto stub = testdata::Till::NewStub(server.Dial());
  grpc::ClientContext context;
  for (const std::string& key : {std::string(), std::string(256, 'k'), std::string("a b"),
                                 std::string("a,b"), std::string("\xc3\xa9")}) {
    EXPECT_EQ(ReasonOf(WithKey(context, key)), Reason::kKeyInvalid) << key;
  }
  ASSERT_TRUE(WithKey(context, "order-42").ok());
  testdata::ChargeRequest request;
  testdata::ChargeReply reply;
  ASSERT_TRUE(stub->Charge(&context, request, &reply).ok());
  EXPECT_THAT(server.arrivals().at(0).keys, ElementsAre("order-42"));
}

}  // namespace
}  // namespace idempotency::internal
