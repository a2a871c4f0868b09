// The fake refuses what the service refuses, so that a test over it cannot pass
// with a request that the service would not take.
#include "interceptors/server/testing/fake_connection.h"

#include <gtest/gtest.h>

#include <string>

#include "core/errors.h"
#include "core/uuid.h"
#include "interceptors/server/testing/sample_question.h"

namespace idempotency {
namespace {

constexpr Connection::Deadline kNoDeadline = Connection::Deadline::max();

class FakeConnectionTest : public testing::Test {
 protected:
  FakeConnectionTest() {
    question_.set_request_token(Uuid::Random().ToString());
    store_.Reserve(question_, kNoDeadline, [this](absl::StatusOr<v1::ReserveResponse> answer) {
      token_ = answer->reserved().reservation_token();
    });
  }

  template <typename Request>
  Request Write() const {
    Request request;
    *request.mutable_record_key() = question_.record_key();
    request.set_reservation_token(token_);
    return request;
  }

  FakeConnection store_;
  v1::ReserveRequest question_ = SampleQuestion();
  std::string token_;
};

TEST_F(FakeConnectionTest, RefusesBadReservations) {
  const auto refusal = [this](const v1::ReserveRequest& question) {
    absl::Status refused;
    store_.Reserve(question, kNoDeadline,
                   [&refused](const auto& answer) { refused = answer.status(); });
    return ReasonOf(refused);
  };
  v1::ReserveRequest bad = SampleQuestion("order-2");
  (*bad.mutable_labels())["build"] = "two\nlines";
  EXPECT_EQ(refusal(bad), Reason::kRequestInvalid);
  bad = SampleQuestion("order-2");
  // Does not parse at the other end.
  (*bad.mutable_labels())["build"] = "\xff";
  EXPECT_EQ(refusal(bad), Reason::kRequestInvalid);
  bad = SampleQuestion("");
  EXPECT_EQ(refusal(bad), Reason::kKeyMissing);
  EXPECT_EQ(store_.record().attempt, 1u);
}

TEST_F(FakeConnectionTest, RefusesBadWrites) {
  absl::Status refused;
  const auto note = [&refused](const auto& answer) { refused = answer.status(); };
  auto release = Write<v1::ReleaseRequest>();
  release.set_reason("two\nlines");
  store_.Release(release, kNoDeadline, note);
  EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid);
  auto extend = Write<v1::ExtendRequest>();
  extend.set_checkpoint(std::string(5000, 'c'));
  store_.Extend(extend, kNoDeadline, note);
  EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid);
  auto complete = Write<v1::CompleteRequest>();
  complete.mutable_reply()->set_code(99);
  store_.Complete(complete, kNoDeadline, note);
  EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid);
  EXPECT_EQ(store_.record().state, v1::RECORD_STATE_RESERVED);
  store_.Release(Write<v1::ReleaseRequest>(), kNoDeadline, note);
  EXPECT_TRUE(refused.ok()) << refused;
}

}  // namespace
}  // namespace idempotency
