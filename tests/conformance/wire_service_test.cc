// The features of the wire that a store does not have: waiting, and durations that are finer than
// any store keeps.
#include "tests/conformance/wire_service.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"

#include "core/wire_time.h"
#include "tests/conformance/sqlite_harness.h"
#include "tests/conformance/store_fixture.h"
#include "tests/conformance/wire_operation.h"

namespace idempotency::internal {
namespace {

using Kind = WireService::Kind;

constexpr std::chrono::seconds kPatience{120};

class WireServiceTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    auto made = SqliteHarness::Make();
    ASSERT_THAT(made, Succeeds());
    harness_ = *std::move(made);
    service_.emplace(harness_->store(), GetParam());
  }

  static ReserveOp OpFor(const std::string& key) {
    ReserveOp op;
    op.key = {"payments", "tenant-1", "/payments.v1.Payments/Charge", key};
    op.fingerprints = {{1, std::string(32, 'a')}};
    op.on_lease_expiry = LeaseExpiry::kTakeOver;
    return op;
  }

  template <typename Request, typename Response>
  std::future<absl::StatusOr<Response>> Call(
      void (Connection::*method)(const Request&, Connection::Deadline,
                                 Connection::Callback<Response>),
      const Request& request) {
    auto answer = std::make_shared<std::promise<absl::StatusOr<Response>>>();
    (service_->connection().*method)(
        request, std::chrono::steady_clock::now() + kPatience,
        [answer](absl::StatusOr<Response> response) { answer->set_value(std::move(response)); });
    return answer->get_future();
  }

  // The grant, which must exist.
  v1::Reserved MustReserve(const v1::ReserveRequest& request) {
    const auto response = Call(&Connection::Reserve, request).get();
    EXPECT_THAT(response, Succeeds());
    if (!response.ok()) return {};
    EXPECT_TRUE(response->has_reserved()) << response->ShortDebugString();
    return response->reserved();
  }

  std::unique_ptr<StoreHarness> harness_;
  std::optional<WireService> service_;
};
INSTANTIATE_TEST_SUITE_P(Connections, WireServiceTest,
                         ::testing::Values(Kind::kSession, Kind::kUnary, Kind::kDirect),
                         [](const auto& kind) {
                           if (kind.param == Kind::kDirect) return "Direct";
                           return kind.param == Kind::kSession ? "Session" : "Unary";
                         });

TEST_P(WireServiceTest, AWaitingCallIsAnsweredWithTheReplyOfTheRunningAttempt) {
  v1::ReserveRequest request = RequestOf(OpFor("awaited"));
  const v1::Reserved holder = MustReserve(request);
  request.mutable_max_wait()->set_seconds(60);
  auto waiting = Call(&Connection::Reserve, request);
  ASSERT_TRUE(service_->observer().Await(&CountingObserver::Counts::waiters, 1));
  v1::CompleteRequest completion;
  *completion.mutable_record_key() = request.record_key();
  completion.set_reservation_token(holder.reservation_token());
  completion.mutable_reply()->set_body("paid");
  ASSERT_THAT(Call(&Connection::Complete, completion).get(), Succeeds());
  const auto answer = waiting.get();
  ASSERT_THAT(answer, Succeeds());
  EXPECT_EQ(answer->replay().reply().body(), "paid");
  EXPECT_EQ(answer->replay().attempt(), 1u);
}

TEST_P(WireServiceTest, AWaitThatIsOverEndsInFlight) {
  v1::ReserveRequest request = RequestOf(OpFor("awaited"));
  MustReserve(request);
  *request.mutable_max_wait() = ToWire(absl::Milliseconds(20));
  const auto answer = Call(&Connection::Reserve, request).get();
  ASSERT_THAT(answer, Succeeds());
  EXPECT_EQ(answer->in_flight().attempt(), 1u) << answer->ShortDebugString();
}

TEST_P(WireServiceTest, WhatIsFinerThanAMicrosecondIsCutOff) {
  ReserveOp op = OpFor("fine");
  op.lease = absl::Seconds(7) + absl::Nanoseconds(999);
  op.retention = absl::Hours(1) + absl::Nanoseconds(1'001);
  op.reply_retention = absl::Minutes(1) + absl::Nanoseconds(1);
  op.tombstone = absl::Nanoseconds(500);
  const v1::Reserved grant = MustReserve(RequestOf(op));
  EXPECT_EQ(FromWire(grant.lease_remaining()), absl::Seconds(7));
  EXPECT_EQ(FromWire(grant.expires_at()), harness_->Now() + absl::Hours(1) + absl::Microseconds(1));
  const auto answer = Call(&Connection::Get, RequestOf(GetOp{{}, op.key})).get();
  ASSERT_THAT(answer, Succeeds());
  const v1::Record& record = answer->record();
  EXPECT_EQ(FromWire(record.reply_expires_at()), harness_->Now() + absl::Minutes(1));
  EXPECT_FALSE(record.has_tombstone_until()) << "one of no length is none";
}

}  // namespace
}  // namespace idempotency::internal
