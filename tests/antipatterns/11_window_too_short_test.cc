// Anti-pattern 11: records are forgotten before the last retry arrives, and the retry runs as new.
// Here a record is kept for 24 hours by default, every reply has the time of its end, and a key
// older than the retention is refused.
#include <atomic>
#include <string>

#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "tests/antipatterns/stack.h"

namespace idempotency::internal::testing {
namespace {

class WindowTooShort : public AntiPattern {};

TEST_P(WindowTooShort, EveryReplyHasItsExpiry) {
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase&, const ActRequest&, ActReply&) { return grpc::Status::OK; });
  const ProbeClient client(server.address());
  const Outcome first = client.Act("order-1");
  const Outcome replay = client.Act("order-1");
  for (const Outcome& outcome : {first, replay}) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    absl::Time expires;
    std::string error;
    ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, outcome.Trailer("idempotency-expires"),
                                &expires, &error))
        << error;
    EXPECT_GT(expires, absl::Now() + absl::Hours(24) - absl::Minutes(1));
  }
}

TEST_P(WindowTooShort, AKeyOlderThanTheMemoryIsRefused) {
  std::atomic<int> runs{0};
  ProbeServer& server = Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply&) {
    ++runs;
    return grpc::Status::OK;
  });
  const ProbeClient client(server.address());
  const Outcome old = client.Act(Uuid::TimeOrdered(absl::Now() - absl::Hours(25)).ToString());
  EXPECT_EQ(old.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(old.reason(), Reason::kKeyExpired);
  EXPECT_EQ(runs, 0);
  const Outcome young = client.Act(Uuid::TimeOrdered(absl::Now() - absl::Hours(23)).ToString());
  EXPECT_TRUE(young.status.ok()) << young.status.error_message();
  EXPECT_EQ(runs, 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, WindowTooShort, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing
