#include "grpc_idempotency/client/pinned_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/testing/till_server.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/idempotency_key.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;

class PinnedKeyTest : public ::testing::Test {
 protected:
  std::vector<std::string> KeysOf(grpc::ClientContext& context) {
    testdata::ChargeRequest request;
    testdata::ChargeReply reply;
    EXPECT_TRUE(stub_->Charge(&context, request, &reply).ok());
    return server_.arrivals().back().keys;
  }

  testdata::TillServer server_;
  const std::unique_ptr<testdata::Till::Stub> stub_ = testdata::Till::NewStub(server_.Dial());
};

TEST_F(PinnedKeyTest, IsSent) {
  grpc::ClientContext context;
  ASSERT_TRUE(WithKey(context, "order-42").ok());
  EXPECT_THAT(KeysOf(context), ElementsAre("order-42"));
}

// A caller that ignores the error must not send the call with a random key.
TEST_F(PinnedKeyTest, ACallWithAKeyThatNoGuardWouldTakeIsRefused) {
  for (const std::string& key : {std::string(), std::string(256, 'k'), std::string("a b"),
                                 std::string("a,b"), std::string("\xc3\xa9")}) {
    grpc::ClientContext context;
    EXPECT_EQ(ReasonOf(WithKey(context, key)), Reason::kKeyInvalid) << key;
    const std::vector<std::string> sent = KeysOf(context);
    ASSERT_EQ(sent.size(), 1u);
    const std::string_view of_guard = sent[0];
    EXPECT_EQ(ReasonOf(ParseIdempotencyKey({&of_guard, 1}).status()), Reason::kKeyInvalid);
  }
}

}  // namespace
}  // namespace idempotency::internal
