// docs/explicit.md's batch job: its result is the statement's, not the record's.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "client/testing/fake_connection.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/server_guard/server_guard.h"

absl::Status SendStatement(
    idempotency::ServerGuard& guard, const std::string& customer, const std::string& month,
    const std::string& statement_json,
    const std::function<absl::StatusOr<std::string>(const std::string& idempotency_key)>& send);

namespace idempotency::internal {
namespace {

class NightlyJobTest : public testing::Test {
 protected:
  using Sent = absl::StatusOr<std::string>;

  NightlyJobTest() {
    GuardOptions options;
    options.name_space = "billing";
    guard_ = ServerGuard::Create(std::make_unique<FakeConnection>(), options).value();
  }
  absl::Status Run(Sent sent) {
    return Run([this, sent = std::move(sent)] {
      ++sends_;
      return sent;
    });
  }
  absl::Status Run(const std::function<Sent()>& send) {
    return SendStatement(*guard_, "alice", "2026-11", "{}",
                         [&send](const std::string&) { return send(); });
  }

  std::unique_ptr<ServerGuard> guard_;
  int sends_ = 0;
};

TEST_F(NightlyJobTest, AStatementIsSentOnce) {
  EXPECT_TRUE(Run(Sent("receipt")).ok());
  EXPECT_TRUE(Run(Sent("receipt")).ok());
  EXPECT_EQ(sends_, 1);
}

TEST_F(NightlyJobTest, AFailureThatIsNotRecordedIsTheResult) {
  EXPECT_TRUE(absl::IsUnavailable(Run(Sent(absl::UnavailableError("away")))));
}

TEST_F(NightlyJobTest, ARecordedFailureIsTheResultOfEachStart) {
  EXPECT_TRUE(absl::IsNotFound(Run(Sent(absl::NotFoundError("no address")))));
  EXPECT_TRUE(absl::IsNotFound(Run(Sent("receipt"))));
  EXPECT_EQ(sends_, 1);
}

TEST_F(NightlyJobTest, AStatementThatAnotherInstanceSendsIsNotSentYet) {
  absl::Status of_other;
  EXPECT_TRUE(Run([&]() -> Sent {
                of_other = Run(Sent("receipt"));
                return "receipt";
              }).ok());
  EXPECT_EQ(ReasonOf(of_other), Reason::kInFlight);
}

}  // namespace
}  // namespace idempotency::internal
