#include "interceptors/server/call/guarded_stream.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

class NoWriter final : public StreamWriter {
 public:
  bool blocks() const override { return false; }
  void Put(std::optional<grpc::ByteBuffer>, std::function<void()>) override {}
  void Open() override {}
  void Discard() override {}
  void Drain(Drained) override {}
};

v1::Reply FailureWith(const std::string& details) {
  MethodPolicy policy;
  policy.stream = MethodPolicy::Stream::kHoldBack;
  policy.reply = MethodPolicy::Reply::kStatusOnly;
  GuardedStream stream(policy, std::make_shared<NoWriter>());
  v1::Reply reply;
  reply.set_code(static_cast<int>(grpc::StatusCode::FAILED_PRECONDITION));
  reply.set_details(details);
  stream.MoveTo(reply);
  return reply;
}

// By its details a settlement does not record it.
TEST(GuardedStreamTest, AnotherGuardsRefusalKeepsItsDetailsWithoutItsMessages) {
  const std::string refusal =
      ToGrpcStatus(MakeError(Reason::kOutcomeUnknown, "of another guard")).error_details();
  EXPECT_EQ(FailureWith(refusal).details(), refusal);
  EXPECT_EQ(FailureWith("of the handler's own").details(), "");
}

}  // namespace
}  // namespace idempotency::internal
