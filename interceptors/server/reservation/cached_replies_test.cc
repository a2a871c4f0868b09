#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"

#include "client/testing/fake_connection.h"
#include "core/sha256.h"
#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"
#include "interceptors/server/reservation/reservation_client.h"
#include "interceptors/server/testing/sample_reserve_request.h"

namespace idempotency::internal {
namespace {

using google::protobuf::util::MessageDifferencer;
using Operation = FakeConnection::Operation;

constexpr absl::Duration kMaxAge = absl::Seconds(10);

class CachedRepliesTest : public testing::Test {
 protected:
  explicit CachedRepliesTest(std::size_t capacity_bytes = 1024 * 1024)
      : cache_(std::make_shared<ReplayCache>(ReplayCacheOptions{capacity_bytes, kMaxAge}, clock_)) {
    auto store = std::make_unique<FakeConnection>();
    store_ = store.get();
    reservations_ = std::make_unique<ReservationClient>(std::move(store), absl::Minutes(1),
                                                        absl::Milliseconds(100), cache_);
  }

  static v1::ReserveRequest ReserveRequestFor(const std::string& key,
                                              const std::string& content = "content") {
    v1::ReserveRequest request = SampleReserveRequest(key, content);
    request.set_request_token(TokenOf(key));
    request.mutable_lease()->set_seconds(60);
    return request;
  }
  // Returns the same token for the same key.
  static std::string TokenOf(const std::string& key) {
    Uuid::Bytes bytes;
    const Sha256Digest digest = Sha256(key);
    std::copy_n(digest.begin(), bytes.size(), bytes.begin());
    return Uuid(bytes).ToString();
  }
  // The verdict, if it is not held back: the cache's, or the store's if the cache has none.
  absl::StatusOr<v1::ReserveResponse> Reserve(const v1::ReserveRequest& request) {
    const auto known = reservations_->FindReplay(request);
    if (known != nullptr) return *known;
    const auto verdict =
        std::make_shared<absl::StatusOr<v1::ReserveResponse>>(absl::UnknownError("not answered"));
    reservations_->Request(std::make_shared<const v1::ReserveRequest>(request),
                           absl::ZeroDuration(), reservations_->Now() + std::chrono::minutes(1),
                           [verdict](absl::StatusOr<ReserveAnswer> answer) {
                             if (answer.ok()) {
                               *verdict = *answer->response;
                             } else {
                               *verdict = answer.status();
                             }
                           });
    return *verdict;
  }
  absl::StatusOr<v1::ReserveResponse> Reserve(const std::string& key) {
    return Reserve(ReserveRequestFor(key));
  }
  std::shared_ptr<Reservation> Hold(const std::string& key, const v1::ReserveResponse& grant) {
    Reservation::Grant held;
    held.request = std::make_shared<const v1::ReserveRequest>(ReserveRequestFor(key));
    held.answer = std::make_shared<const v1::ReserveResponse>(grant);
    held.lease = absl::Minutes(1);
    held.lease_deadline = reservations_->Now() + std::chrono::minutes(1);
    return reservations_->Hold(std::move(held));
  }
  absl::Status Complete(const std::string& key, const v1::ReserveResponse& grant,
                        const v1::Reply& reply) {
    absl::Status status = absl::UnknownError("not answered");
    Hold(key, grant)->Complete(std::make_unique<v1::Reply>(reply), [&status](const auto& answer) {
      status = answer.status();
    });
    return status;
  }
  // An operation whose reply the cache has not seen: another guard's.
  void CompleteElsewhere(const std::string& key,
                         v1::ReplyContent content = v1::REPLY_CONTENT_FULL) {
    v1::ReserveResponse grant;
    store_->Reserve(ReserveRequestFor(key), Connection::Deadline::max(),
                    [&grant](const auto& answer) { grant = answer.value(); });
    v1::CompleteRequest request;
    *request.mutable_record_key() = ReserveRequestFor(key).record_key();
    request.set_reservation_token(grant.reserved().reservation_token());
    request.mutable_reply()->set_body("reply");
    request.mutable_reply()->set_content(content);
    store_->Complete(request, Connection::Deadline::max(), [](const auto&) {});
  }
  int reserves_sent() const { return store_->calls(Operation::kReserve); }

  ManualClock clock_;
  std::shared_ptr<ReplayCache> cache_;
  FakeConnection* store_ = nullptr;
  std::unique_ptr<ReservationClient> reservations_;
};

TEST_F(CachedRepliesTest, AReplayIsFetchedOnceAndThenReturnedUnchanged) {
  CompleteElsewhere("order-1");
  const auto first = Reserve("order-1");
  ASSERT_TRUE(first.ok() && first->has_replay());
  const int before = reserves_sent();
  const auto second = Reserve("order-1");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(reserves_sent(), before);
  EXPECT_TRUE(MessageDifferencer::Equals(*second, *first));
}

TEST_F(CachedRepliesTest, WhatIsNotFullIsGivenAsItCameToo) {
  for (const auto content :
       {v1::REPLY_CONTENT_STATUS_ONLY, v1::REPLY_CONTENT_REFERENCE, v1::REPLY_CONTENT_REDACTED}) {
    const std::string key = absl::StrCat("order-", content);
    CompleteElsewhere(key, content);
    const auto first = Reserve(key);
    const int before = reserves_sent();
    const auto second = Reserve(key);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(reserves_sent(), before);
    EXPECT_EQ(second->replay().reply().content(), content);
    EXPECT_TRUE(MessageDifferencer::Equals(*second, *first));
  }
}

// The cached reply is built in this process, so it is compared with the store's own answer.
TEST_F(CachedRepliesTest, AnAcknowledgedReplyIsReturnedWithoutTheStoreAsTheStoreWould) {
  const auto grant = Reserve("order-1");
  ASSERT_TRUE(grant.ok() && grant->has_reserved());
  v1::Reply reply;
  reply.set_code(5);
  reply.set_message("no such account");
  reply.set_details("details");
  reply.add_trailing_metadata()->set_key("trailer");
  ASSERT_TRUE(Complete("order-1", *grant, reply).ok());
  const int before = reserves_sent();
  const auto kept = Reserve("order-1");
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(reserves_sent(), before);
  clock_.Advance(kMaxAge);
  const auto stored = Reserve("order-1");
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(reserves_sent(), before + 1);
  EXPECT_TRUE(MessageDifferencer::Equivalent(*kept, *stored)) << kept->ShortDebugString() << "\n"
                                                              << stored->ShortDebugString();
}

TEST_F(CachedRepliesTest, AnAcknowledgedReplyHasRecordIdAttemptAndLabelsOfItsGrant) {
  v1::ReserveResponse grant = *Reserve("order-1");
  grant.set_record_id("01890a5d-ac96-774b-bcce-000000000007");
  grant.mutable_reserved()->set_attempt(7);
  (*grant.mutable_reserved()->mutable_labels())["build"] = "1.2";
  store_->SetVerdict(grant);
  ASSERT_TRUE(Reserve("order-1")->has_reserved());
  ASSERT_TRUE(Complete("order-1", grant, v1::Reply()).ok());
  const auto kept = Reserve("order-1");
  ASSERT_TRUE(kept->has_replay());
  EXPECT_EQ(kept->record_id(), grant.record_id());
  EXPECT_EQ(kept->replay().attempt(), 7u);
  EXPECT_EQ(kept->replay().labels().at("build"), "1.2");
}

TEST_F(CachedRepliesTest, TheReplyIsCachedBeforeTheCallerGetsIt) {
  const auto grant = Reserve("order-1");
  bool was_kept = false;
  Hold("order-1", *grant)->Complete(std::make_unique<v1::Reply>(), [&](const auto&) {
    // Nothing is locked: the cache can be used from a callback.
    was_kept = Reserve("order-1")->has_replay();
  });
  EXPECT_TRUE(was_kept);
  EXPECT_EQ(reserves_sent(), 1);
}

TEST_F(CachedRepliesTest, AReplyThatTheStoreDidNotAcknowledgeIsNotKept) {
  const auto grant = Reserve("order-1");
  store_->Fail(Operation::kComplete, MakeError(Reason::kReservationLost, "taken over"), 1);
  EXPECT_FALSE(Complete("order-1", *grant, v1::Reply()).ok());
  EXPECT_FALSE(Reserve("order-1")->has_replay());
  // The same Complete again, acknowledged now.
  EXPECT_TRUE(Complete("order-1", *grant, v1::Reply()).ok());
  const int before = reserves_sent();
  EXPECT_TRUE(Reserve("order-1")->has_replay());
  EXPECT_EQ(reserves_sent(), before);
}

TEST_F(CachedRepliesTest, AReplyIsKeptAfterALongExecution) {
  const auto grant = Reserve("order-1");
  clock_.Advance(2 * kMaxAge);
  EXPECT_TRUE(Complete("order-1", *grant, v1::Reply()).ok());
  const int before = reserves_sent();
  EXPECT_TRUE(Reserve("order-1")->has_replay());
  EXPECT_EQ(reserves_sent(), before);
}

class LargeCachedRepliesTest : public CachedRepliesTest {
 protected:
  LargeCachedRepliesTest() : CachedRepliesTest(std::size_t{1} << 30) {}
};

TEST_F(LargeCachedRepliesTest, AReplyThatTheServiceCutsIsNotKeptWhole) {
  const auto grant = Reserve("order-1");
  v1::Reply reply;
  reply.set_body(std::string(limits::kMaxReplyBytes, 'x'));
  EXPECT_TRUE(Complete("order-1", *grant, reply).ok());
  Reserve("order-1").IgnoreError();
  EXPECT_EQ(reserves_sent(), 2);
}

TEST_F(CachedRepliesTest, WhetherARequestDiffersIsTheStoresVerdict) {
  CompleteElsewhere("order-1");
  ASSERT_TRUE(Reserve("order-1")->has_replay());
  const int before = reserves_sent();
  EXPECT_TRUE(Reserve(ReserveRequestFor("order-1", "other"))->has_mismatch());
  EXPECT_EQ(reserves_sent(), before + 1);
  // It does not affect the cached reply.
  EXPECT_TRUE(Reserve("order-1")->has_replay());
  EXPECT_EQ(reserves_sent(), before + 1);
}

TEST_F(CachedRepliesTest, OnlyRepliesAreGivenAgain) {
  for (const auto set : {+[](v1::ReserveResponse& r) { r.mutable_in_flight(); },
                         +[](v1::ReserveResponse& r) { r.mutable_mismatch(); },
                         +[](v1::ReserveResponse& r) { r.mutable_outcome_unknown(); },
                         +[](v1::ReserveResponse& r) { r.mutable_expired(); },
                         +[](v1::ReserveResponse& r) {
                           r.mutable_reserved()->mutable_lease_remaining()->set_seconds(60);
                         }}) {
    v1::ReserveResponse verdict;
    set(verdict);
    store_->SetVerdict(verdict);
    const int before = reserves_sent();
    EXPECT_EQ(Reserve("order-1")->verdict_case(), verdict.verdict_case());
    EXPECT_EQ(Reserve("order-1")->verdict_case(), verdict.verdict_case());
    EXPECT_EQ(reserves_sent(), before + 2);
  }
}

TEST_F(CachedRepliesTest, AnotherVerdictOfTheStoreEndsTheReply) {
  for (const auto set : {+[](v1::ReserveResponse& r) { r.mutable_in_flight(); },
                         +[](v1::ReserveResponse& r) { r.mutable_outcome_unknown(); },
                         +[](v1::ReserveResponse& r) { r.mutable_expired(); },
                         +[](v1::ReserveResponse& r) {
                           r.mutable_reserved()->mutable_lease_remaining()->set_seconds(60);
                         }}) {
    CompleteElsewhere("order-1");
    store_->SetVerdict(v1::ReserveResponse());
    ASSERT_TRUE(Reserve("order-1")->has_replay());
    v1::ReserveResponse verdict;
    set(verdict);
    store_->SetVerdict(verdict);
    // A request that the cache leaves to the store shows that things changed.
    Reserve(ReserveRequestFor("order-1", "other")).IgnoreError();
    EXPECT_EQ(Reserve("order-1")->verdict_case(), verdict.verdict_case());
    store_->SetVerdict(v1::ReserveResponse());
  }
}

TEST_F(CachedRepliesTest, ErrorsAreNotKeptAndEndNothing) {
  CompleteElsewhere("order-1");
  ASSERT_TRUE(Reserve("order-1")->has_replay());
  store_->Fail(Operation::kReserve, MakeError(Reason::kQuotaExceeded, "too many"), 2);
  EXPECT_EQ(ReasonOf(Reserve("order-2").status()), Reason::kQuotaExceeded);
  EXPECT_EQ(ReasonOf(Reserve(ReserveRequestFor("order-1", "other")).status()),
            Reason::kQuotaExceeded);
  EXPECT_TRUE(Reserve("order-1")->has_replay());
  EXPECT_TRUE(Reserve("order-2")->has_reserved());
}

TEST_F(CachedRepliesTest, ADuplicateInFlightDoesNotLoseTheReply) {
  const auto grant = Reserve("order-1");
  v1::ReserveRequest duplicate = ReserveRequestFor("order-1");
  duplicate.set_request_token(Uuid::Random().ToString());
  EXPECT_TRUE(Reserve(duplicate)->has_in_flight());
  EXPECT_TRUE(Complete("order-1", *grant, v1::Reply()).ok());
  const int before = reserves_sent();
  EXPECT_TRUE(Reserve("order-1")->has_replay());
  EXPECT_EQ(reserves_sent(), before);
}

TEST_F(CachedRepliesTest, TheAgeOfAnAnswerCountsFromBeforeItsQuestionWasSent) {
  CompleteElsewhere("order-1");
  store_->Hold(Operation::kReserve);
  Reserve("order-1").IgnoreError();
  clock_.Advance(kMaxAge - absl::Seconds(1));
  store_->AnswerHeld(Operation::kReserve);
  const int before = reserves_sent();
  EXPECT_TRUE(Reserve("order-1")->has_replay());
  EXPECT_EQ(reserves_sent(), before);
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Reserve("order-1")->has_replay());
  EXPECT_EQ(reserves_sent(), before + 1);
}

// Threads that run operations and retry them, against a store that answers on
// their own threads: every retry gets its own operation's reply.
TEST_F(CachedRepliesTest, ConcurrentOperationsGetTheirOwnReplies) {
  constexpr int kThreads = 4;
  constexpr int kOperations = 300;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kOperations; ++i) {
        const std::string key = absl::StrCat("order-", t, "-", i);
        const auto grant = Reserve(key);
        ASSERT_TRUE(grant.ok() && grant->has_reserved());
        v1::Reply reply;
        reply.set_body(absl::StrCat(key, std::string(2000, '.')));
        ASSERT_TRUE(Complete(key, *grant, reply).ok());
        if (i % 40 == 0) clock_.Advance(absl::Seconds(1));
        for (const int back : {0, 1, 20}) {
          if (i < back) continue;
          const std::string earlier = absl::StrCat("order-", t, "-", i - back);
          const auto retry = Reserve(earlier);
          ASSERT_TRUE(retry.ok() && retry->has_replay());
          ASSERT_EQ(retry->replay().reply().body(), absl::StrCat(earlier, std::string(2000, '.')));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(cache_->counters().hits, 0u);
}

TEST_F(LargeCachedRepliesTest, AReplyOfTheLargestSizeIsKeptAndNoneAboveIt) {
  v1::Reply reply;
  reply.set_body(std::string(limits::kMaxReplyBytes - ReplyBytes(reply), 'x'));
  while (ReplyBytes(reply) > limits::kMaxReplyBytes) reply.mutable_body()->pop_back();
  ASSERT_EQ(ReplyBytes(reply), limits::kMaxReplyBytes);
  for (const std::size_t more : {0, 1}) {
    const std::string key = absl::StrCat("order-", more);
    const auto grant = Reserve(key);
    ASSERT_TRUE(grant.ok()) << grant.status();
    reply.mutable_body()->append(more, 'x');
    Complete(key, *grant, reply).IgnoreError();
    const auto reserve_request = ReserveRequestFor(key);
    EXPECT_EQ(
        cache_->FindReplay(reserve_request.record_key(), reserve_request.fingerprints()) != nullptr,
        more == 0);
  }
}

}  // namespace
}  // namespace idempotency::internal
