// The consumer in separate processes, killed with -9 at each critical point, over a real
// idempotencyd and over an embedded one: a message that is delivered twice has one effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace inbox {
namespace {

using idempotency::internal::testing::DaemonProcess;
using idempotency::internal::testing::Process;
using idempotency::internal::testing::TempFolder;
using testing::ContainsRegex;
using testing::HasSubstr;

class InboxTest : public testing::TestWithParam<bool> {
 protected:
  InboxTest() {
    const std::string store = "sqlite:" + folder_.File("records.db");
    if (!GetParam()) daemon_.emplace(store);
    flags_ = {"--queue=" + folder_.File("queue.db"), "--accounts=" + folder_.File("accounts.db"),
              "--idempotencyd=" + (daemon_.has_value() ? daemon_->address() : store),
              // Short, so that the test does not wait long after a crash.
              "--lease=500ms", "--invisibility=100ms"};
    Do({"open", "--account=alice"});
  }

  std::unique_ptr<Process> Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "inbox");
    arguments.insert(arguments.end(), flags_.begin(), flags_.end());
    return Process::Start(std::move(arguments)).value();
  }
  // Its output.
  std::string Do(std::vector<std::string> arguments) {
    const auto process = Start(std::move(arguments));
    const auto exit = process->Wait();
    EXPECT_TRUE(exit.ok() && exit->code == 0) << process->Stderr();
    return process->Stdout();
  }
  void Send(const std::string& id, int amount_cents, const std::string& account = "alice") {
    Do({"send", "--id=" + id, "--account=" + account,
        "--amount_cents=" + std::to_string(amount_cents)});
  }
  std::string ConsumeAll() { return Do({"consume", "--until_empty"}); }

  TempFolder folder_;
  std::optional<DaemonProcess> daemon_;
  std::vector<std::string> flags_;
};

class InboxCrashTest : public InboxTest {
 protected:
  // A consumer crashes at this point; the output of another one afterwards.
  std::string CrashAndConsume(const std::string& when) {
    Send("m-1", 500);
    const auto victim = Start({"consume", "--until_empty", "--die_when=" + when});
    const auto exit = victim->Wait();
    EXPECT_TRUE(exit.ok() && exit->signal == SIGKILL) << victim->Stderr();
    const std::string printed = ConsumeAll();
    EXPECT_THAT(Do({"show"}), HasSubstr("alice: 500 cents in 1 deposits\nqueue: 0 waiting"));
    return printed;
  }
};

TEST_P(InboxCrashTest, BeforeTheEffectItIsMadeByTheNextAttempt) {
  EXPECT_THAT(CrashAndConsume("reserved"), ContainsRegex("m-1, delivery [0-9]+: done"));
}

TEST_P(InboxCrashTest, BetweenEffectAndRecordTheNextAttemptFindsTheEffect) {
  EXPECT_THAT(CrashAndConsume("committed"), ContainsRegex("m-1, delivery [0-9]+: done"));
}

TEST_P(InboxCrashTest, BetweenRecordAndAcknowledgementTheNextDeliveryIsAReplay) {
  EXPECT_EQ(CrashAndConsume("recorded"), "m-1, delivery 2: done\n");
}

TEST_P(InboxTest, AMessageThatWasSentTwiceHasOneEffect) {
  Send("m-1", 500);
  Send("m-1", 500);
  Send("m-2", 20);
  EXPECT_EQ(ConsumeAll(), "m-1, delivery 1: done\nm-1, delivery 1: done\nm-2, delivery 1: done\n");
  EXPECT_THAT(Do({"show"}), HasSubstr("alice: 520 cents in 2 deposits\nqueue: 0 waiting"));
}

TEST_P(InboxTest, AnotherMessageUnderAUsedIdIsSetAside) {
  Send("m-1", 500);
  Send("m-1", 900);
  EXPECT_THAT(ConsumeAll(), HasSubstr("used with a different request"));
  EXPECT_EQ(Do({"show"}), "alice: 500 cents in 1 deposits\nqueue: 0 waiting, 1 set aside\n");
}

TEST_P(InboxTest, AFailureForGoodIsAnOutcomeToo) {
  Send("m-1", 500, "nobody");
  Send("m-1", 500, "nobody");
  EXPECT_EQ(ConsumeAll(), "m-1, delivery 1: done\nm-1, delivery 1: done\n");
  Do({"open", "--account=nobody"});
  Send("m-1", 500, "nobody");
  ConsumeAll();
  EXPECT_THAT(Do({"show"}), HasSubstr("nobody: 0 cents in 0 deposits\nqueue: 0 waiting, 0 set"));
}

TEST_P(InboxTest, SeveralConsumersShareTheQueue) {
  if (!daemon_.has_value()) GTEST_SKIP() << "a SQLite file belongs to one service at a time";
  for (int i = 0; i < 8; ++i) {
    Send("m-" + std::to_string(i), 10);
    Send("m-" + std::to_string(i), 10);
  }
  const auto one = Start({"consume", "--until_empty"});
  const auto two = Start({"consume", "--until_empty"});
  for (const auto& consumer : {one.get(), two.get()}) {
    const auto exit = consumer->Wait();
    EXPECT_TRUE(exit.ok() && exit->code == 0) << consumer->Stderr();
  }
  EXPECT_THAT(Do({"show"}), HasSubstr("alice: 80 cents in 8 deposits\nqueue: 0 waiting"));
}

std::string NameOf(const testing::TestParamInfo<bool>& embedded) {
  return embedded.param ? "Embedded" : "Idempotencyd";
}
INSTANTIATE_TEST_SUITE_P(Stores, InboxTest, testing::Bool(), NameOf);
INSTANTIATE_TEST_SUITE_P(Stores, InboxCrashTest, testing::Bool(), NameOf);

}  // namespace
}  // namespace inbox
