#include "client/testing/connection_decorator.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/testing/scripted_connection.h"

namespace idempotency::internal {
namespace {

constexpr Connection::Deadline kDeadline = Connection::Deadline::max();

class ConnectionDecoratorTest : public ::testing::Test {
 protected:
  void Make(ConnectionDecorator::Hooks hooks) {
    auto inner = std::make_unique<ScriptedConnection>([this](const AnyConnectionCall& call,
                                                             Connection::Deadline /*deadline*/) {
      std::visit([this](const auto& typed) { sent_.push_back(typed.request.record_key().key()); },
                 call);
      AnswerEmpty(call);
    });
    connection_.emplace(std::move(inner), std::move(hooks));
  }
  void Get(const std::string& key) {
    v1::GetRequest request;
    request.mutable_record_key()->set_key(key);
    connection_->Get(request, kDeadline, [this](const absl::StatusOr<v1::GetResponse>& answer) {
      answers_.push_back(answer.status());
    });
  }

  std::vector<std::string> sent_;
  std::vector<absl::Status> answers_;
  std::optional<ConnectionDecorator> connection_;
};

TEST_F(ConnectionDecoratorTest, WithoutHooksCallsAndAnswersPass) {
  Make({});
  Get("one");
  EXPECT_EQ(sent_, std::vector<std::string>{"one"});
  EXPECT_EQ(answers_, std::vector<absl::Status>{absl::OkStatus()});
}

TEST_F(ConnectionDecoratorTest, ACallThatAHookKeepsIsSentLaterWithItsRequest) {
  std::vector<ConnectionDecorator::Pass> kept;
  ConnectionDecorator::Hooks hooks;
  hooks.before_sending = [&](const AnyConnectionCall& /*call*/, ConnectionDecorator::Pass pass) {
    kept.push_back(std::move(pass));
  };
  Make(std::move(hooks));
  Get("one");
  Get("two");
  EXPECT_TRUE(sent_.empty());
  EXPECT_TRUE(answers_.empty());
  kept.at(1)(absl::OkStatus());
  EXPECT_EQ(sent_, std::vector<std::string>{"two"});
  EXPECT_EQ(answers_, std::vector<absl::Status>{absl::OkStatus()});
}

TEST_F(ConnectionDecoratorTest, TheErrorOfAHookIsTheAnswerAndNothingIsSent) {
  ConnectionDecorator::Hooks hooks;
  hooks.before_sending = [](const AnyConnectionCall& /*call*/,
                            const ConnectionDecorator::Pass& pass) {
    pass(absl::AbortedError("refused"));
  };
  std::vector<absl::Status> watched;
  hooks.watch_answers = [&](const AnyConnectionCall& /*call*/, Connection::Deadline deadline) {
    EXPECT_EQ(deadline, kDeadline);
    return [&](const absl::Status& status) {
      EXPECT_TRUE(answers_.empty());
      watched.push_back(status);
    };
  };
  Make(std::move(hooks));
  Get("one");
  EXPECT_TRUE(sent_.empty());
  EXPECT_EQ(answers_, std::vector<absl::Status>{absl::AbortedError("refused")});
  EXPECT_EQ(watched, answers_);
}

}  // namespace
}  // namespace idempotency::internal
