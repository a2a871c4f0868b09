#include "interceptors/server/reservation/store_probe.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/testing/scripted_connection.h"
#include "core/answer_kind.h"
#include "grpc_idempotency/errors.h"
#include "interceptors/server/testing/fake_scheduler.h"

namespace idempotency::internal {
namespace {

// Answers a read when a test triggers it, and does nothing else.
class Reads {
 public:
  void Answer(absl::StatusOr<v1::GetResponse> answer) {
    auto done = std::move(waiting.front());
    waiting.pop_front();
    done(std::move(answer));
  }

  int calls = 0;
  v1::GetRequest last;
  Connection::Deadline last_deadline;
  std::deque<Connection::Callback<v1::GetResponse>> waiting;
  ScriptedConnection connection{[this](AnyConnectionCall call, Connection::Deadline deadline) {
    auto& read = std::get<ConnectionCall<v1::GetRequest, v1::GetResponse>>(call);
    ++calls;
    last = read.request;
    last_deadline = deadline;
    waiting.push_back(std::move(read.done));
  }};
};

absl::Status Away() { return MakeError(Reason::kStoreUnavailable, "away"); }
absl::Status NoSuchRecord() { return MakeError(Reason::kRecordNotFound, "no such record"); }

class StoreProbeTest : public testing::Test {
 protected:
  void Run(absl::Duration time = absl::Seconds(10)) {
    StoreProbe::Run(std::make_shared<const StoreContext>(StoreContext{
                        reads_.connection, scheduler_, std::make_shared<OutstandingWork>(),
                        std::make_shared<OutstandingWork>()}),
                    "tills", scheduler_.Now() + absl::ToChronoNanoseconds(time),
                    [this](const absl::Status& status) { answers_.push_back(status); });
  }

  FakeScheduler scheduler_;
  Reads reads_;
  std::vector<absl::Status> answers_;
};

TEST_F(StoreProbeTest, ReadsARecordOfItsNamespaceThatNoMethodHas) {
  Run();
  const v1::RecordKey& key = reads_.last.record_key();
  EXPECT_EQ(key.namespace_(), "tills");
  EXPECT_FALSE(key.scope().empty());
  EXPECT_FALSE(key.key().empty());
  EXPECT_FALSE(key.operation().empty());
  EXPECT_EQ(key.operation().find('/'), std::string::npos);
}

TEST_F(StoreProbeTest, AStoreThatHasNoSuchRecordWasRead) {
  Run();
  EXPECT_TRUE(answers_.empty());
  reads_.Answer(NoSuchRecord());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].ok());
  EXPECT_EQ(scheduler_.pending(), 0u);
}

TEST_F(StoreProbeTest, AStoreThatHasTheRecordWasReadToo) {
  Run();
  reads_.Answer(v1::GetResponse());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].ok());
}

TEST_F(StoreProbeTest, RetriesWhileTheServiceIsUnavailableOrBusy) {
  Run();
  reads_.Answer(Away());
  scheduler_.Advance(kLongestRepeat);
  ASSERT_EQ(reads_.calls, 2);
  reads_.Answer(MakeError(Reason::kOverloaded, "busy"));
  EXPECT_TRUE(answers_.empty());
  scheduler_.Advance(kLongestRepeat);
  ASSERT_EQ(reads_.calls, 3);
  reads_.Answer(NoSuchRecord());
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].ok());
  EXPECT_EQ(scheduler_.pending(), 0u);
}

TEST_F(StoreProbeTest, ARefusalIsReportedAtOnce) {
  Run();
  reads_.Answer(absl::PermissionDeniedError("not this guard"));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(scheduler_.pending(), 0u);
}

// As a connection reports a status without a reason.
TEST_F(StoreProbeTest, ACodeOfAProxyIsNoRefusal) {
  ErrorDetails details;
  details.metadata[std::string(kStatusCodeDetail)] =
      absl::StrCat(static_cast<int>(absl::StatusCode::kPermissionDenied));
  Run();
  reads_.Answer(MakeError(Reason::kStoreUnavailable, "no route", std::move(details)));
  EXPECT_TRUE(answers_.empty());
  scheduler_.Advance(kLongestRepeat);
  EXPECT_EQ(reads_.calls, 2);
}

TEST_F(StoreProbeTest, NoAnswerByTheDeadlineIsUnavailable) {
  Run(absl::Seconds(1));
  EXPECT_EQ(reads_.last_deadline, scheduler_.Now() + std::chrono::seconds(1));
  scheduler_.Advance(absl::Milliseconds(999));
  EXPECT_TRUE(answers_.empty());
  scheduler_.Advance(absl::Milliseconds(1));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(ReasonOf(answers_[0]), Reason::kStoreUnavailable);
  // A later answer is too late, and does not cause a repeat.
  reads_.Answer(Away());
  scheduler_.Advance(absl::Seconds(5));
  EXPECT_EQ(answers_.size(), 1u);
  EXPECT_EQ(reads_.calls, 1);
}

TEST_F(StoreProbeTest, AnAnswerAfterTheDeadlineStartsNothing) {
  Run(absl::Seconds(1));
  reads_.Answer(Away());
  scheduler_.Advance(absl::Milliseconds(20));
  ASSERT_EQ(reads_.calls, 2);
  scheduler_.Advance(absl::Seconds(1));
  ASSERT_EQ(answers_.size(), 1u);
  reads_.Answer(Away());
  EXPECT_EQ(scheduler_.pending(), 0u);
}

// A try without an answer is given up long before the deadline.
TEST_F(StoreProbeTest, ATryTakesTwoSecondsAtMost) {
  Run(absl::Minutes(1));
  EXPECT_EQ(reads_.last_deadline, scheduler_.Now() + absl::ToChronoNanoseconds(kTryTimeout));
}

TEST_F(StoreProbeTest, TheLastFailureIsReportedAtTheDeadline) {
  Run(absl::Seconds(1));
  reads_.Answer(absl::UnavailableError("first"));
  scheduler_.Advance(absl::Milliseconds(20));
  reads_.Answer(absl::UnavailableError("second"));
  scheduler_.Advance(absl::Milliseconds(40));
  ASSERT_EQ(reads_.calls, 3);
  scheduler_.Advance(absl::Seconds(1));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].message(), "second");
}

TEST_F(StoreProbeTest, AFailureIsReportedAtOnceWithoutTimeForARetry) {
  Run(absl::Milliseconds(1));
  reads_.Answer(absl::UnavailableError("away"));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].message(), "away");
  EXPECT_EQ(scheduler_.pending(), 0u);
}

TEST_F(StoreProbeTest, AFailureIsReportedAtOnceOnAStoppedScheduler) {
  scheduler_.Stop();
  Run();
  reads_.Answer(absl::UnavailableError("away"));
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].message(), "away");
}

TEST_F(StoreProbeTest, AStoppedSchedulerEndsIt) {
  Run();
  scheduler_.Stop();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(ReasonOf(answers_[0]), Reason::kStoreUnavailable);
  reads_.Answer(absl::UnavailableError("away"));
  EXPECT_EQ(answers_.size(), 1u);
}

}  // namespace
}  // namespace idempotency::internal
