#include "grpc_idempotency/client_interceptor/retry_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/testing/till_server.h"
#include "grpc_idempotency/client_interceptor/keyed_channel.h"
#include "grpc_idempotency/errors.h"
#include "interceptors/client/testing/keyed_till.h"

namespace idempotency::internal {
namespace {

using std::chrono::milliseconds;
using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;
using testdata::TillServer;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

grpc::Status Unavailable() { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "try again"); }

std::vector<TillServer::Answer> Times(int count, const TillServer::Answer& answer) {
  return std::vector<TillServer::Answer>(count, answer);
}

// Short pauses, so that a test waits only for the events under test.
RetryPolicy QuickPolicy() {
  RetryPolicy policy;
  policy.initial_backoff = absl::Milliseconds(1);
  policy.max_backoff = absl::Milliseconds(5);
  return policy;
}

constexpr char kTill[] = "idempotency.testdata.Till";
constexpr char kTip[] = "idempotency.testdata.Till/Tip";

class RetryPolicyTest : public ::testing::Test {
 protected:
  using Method = grpc::Status (Till::Stub::*)(grpc::ClientContext*, const ChargeRequest&,
                                              ChargeReply*);

  grpc::Status Call(Method method, const RetryPolicy& policy,
                    const std::set<std::string>& guarded) {
    auto stub =
        Till::NewStub(testdata::DialKeyed(server_, RetryingChannelArguments(policy, guarded)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    ChargeReply reply;
    return (stub.get()->*method)(&context, request_, &reply);
  }
  grpc::Status Charge(const RetryPolicy& policy = QuickPolicy(),
                      const std::set<std::string>& guarded = {kTill}) {
    return Call(&Till::Stub::Charge, policy, guarded);
  }
  // The number of arrivals of a call that always fails.
  std::size_t Arrivals(Method method, const std::set<std::string>& guarded) {
    const std::size_t before = server_.arrivals().size();
    server_.Script(Times(10, {Unavailable(), {}, false, false}));
    EXPECT_EQ(Call(method, QuickPolicy(), guarded).error_code(), grpc::StatusCode::UNAVAILABLE);
    return server_.arrivals().size() - before;
  }
  // The time from one arrival to the next.
  milliseconds Pause(std::size_t after) {
    const auto arrivals = server_.arrivals();
    return std::chrono::duration_cast<milliseconds>(arrivals.at(after + 1).at -
                                                    arrivals.at(after).at);
  }

  TillServer server_;
  ChargeRequest request_;
};

TEST(RetryPolicyDefaultsTest, AreTheDocumentedOnes) {
  const RetryPolicy policy;
  EXPECT_EQ(policy.max_attempts, 5);
  EXPECT_EQ(policy.initial_backoff, absl::Milliseconds(50));
  EXPECT_EQ(policy.max_backoff, absl::Seconds(2));
  EXPECT_EQ(policy.backoff_multiplier, 2.0);
  EXPECT_EQ(policy.per_rpc_retry_buffer_bytes, 4u << 20);
}

TEST_F(RetryPolicyTest, EveryAttemptCarriesTheSameKey) {
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::ABORTED,
                          grpc::StatusCode::RESOURCE_EXHAUSTED}) {
    const std::size_t before = server_.arrivals().size();
    server_.Script(Times(4, {grpc::Status(code, "again"), {}, false, false}));
    EXPECT_TRUE(Charge().ok());
    const auto arrivals = server_.arrivals();
    ASSERT_THAT(arrivals, SizeIs(before + 5)) << code;
    ASSERT_THAT(arrivals[before].keys, SizeIs(1));
    for (std::size_t i = before; i < arrivals.size(); ++i) {
      EXPECT_EQ(arrivals[i].keys, arrivals[before].keys);
    }
  }
}

TEST_F(RetryPolicyTest, StopsAfterMaxAttempts) {
  server_.Script(Times(10, {Unavailable(), {}, false, false}));
  RetryPolicy policy = QuickPolicy();
  policy.max_attempts = 3;
  EXPECT_EQ(Charge(policy).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(server_.arrivals(), SizeIs(3));
}

TEST_F(RetryPolicyTest, VerdictsAreNotRetried) {
  server_.Script(
      {{grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "KEY_REUSED"), {}, false, false}});
  EXPECT_EQ(Charge().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(server_.arrivals(), SizeIs(1));
}

TEST_F(RetryPolicyTest, PushbackSetsThePause) {
  server_.Script({{Unavailable(), "400", false, false}});
  EXPECT_TRUE(Charge().ok());
  ASSERT_THAT(server_.arrivals(), SizeIs(2));
  EXPECT_GE(Pause(0), milliseconds(390));
}

TEST_F(RetryPolicyTest, PushbackComesBeforeALongerBackoff) {
  RetryPolicy policy;
  policy.initial_backoff = absl::Seconds(30);
  policy.max_backoff = absl::Seconds(30);
  server_.Script({{Unavailable(), "10", false, false}});
  EXPECT_TRUE(Charge(policy).ok());
  EXPECT_THAT(server_.arrivals(), SizeIs(2));
}

TEST_F(RetryPolicyTest, NegativePushbackStops) {
  server_.Script({{Unavailable(), "-1", false, false}});
  EXPECT_EQ(Charge().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(server_.arrivals(), SizeIs(1));
}

// The reason why a guard's rejections are Trailers-Only.
TEST_F(RetryPolicyTest, InitialMetadataOnAFailureStops) {
  server_.Script({{Unavailable(), {}, true, false}});
  EXPECT_EQ(Charge().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(server_.arrivals(), SizeIs(1));
}

TEST_F(RetryPolicyTest, RequestsUpToTheBufferAreRetried) {
  request_.set_note(std::string(1 << 20, 'n'));
  server_.Script({{Unavailable(), {}, false, false}});
  EXPECT_TRUE(Charge().ok());
  EXPECT_THAT(server_.arrivals(), SizeIs(2));
}

TEST_F(RetryPolicyTest, RequestsOverTheBufferAreNot) {
  request_.set_note(std::string(1 << 20, 'n'));
  RetryPolicy policy = QuickPolicy();
  policy.per_rpc_retry_buffer_bytes = 256 * 1024;
  server_.Script({{Unavailable(), {}, false, false}});
  EXPECT_EQ(Charge(policy).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(server_.arrivals(), SizeIs(1));
}

TEST_F(RetryPolicyTest, AThrottleStopsRetriesWhileAllCallsFail) {
  constexpr int kCalls = 100;
  server_.Script(Times(5 * kCalls, {Unavailable(), {}, false, false}));
  RetryPolicy policy = QuickPolicy();
  policy.throttle = {/*max_tokens=*/4, /*token_ratio=*/0.1};
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_EQ(Charge(policy).error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  EXPECT_LT(server_.arrivals().size(), 110u);
  EXPECT_GT(server_.arrivals().size(), 100u) << "the first calls are retried";
}

// A client that is rolled out before the guard: a method that no guard is known to protect runs
// once.
TEST_F(RetryPolicyTest, WithoutNamesOnlyWhatItsProtoDeclaresIsRetried) {
  EXPECT_EQ(Arrivals(&Till::Stub::Charge, {}), 1u) << "nothing says that it is guarded";
  EXPECT_EQ(Arrivals(&Till::Stub::Log, {}), 1u) << "KEY_NONE";
  EXPECT_EQ(Arrivals(&Till::Stub::Tip, {}), 5u) << "its option";
  EXPECT_EQ(Arrivals(&Till::Stub::Order, {}), 5u) << "its option";
  EXPECT_EQ(Arrivals(&Till::Stub::Balance, {}), 5u) << "NO_SIDE_EFFECTS";
  EXPECT_EQ(Arrivals(&Till::Stub::SetLimit, {}), 5u) << "IDEMPOTENT";
}

TEST_F(RetryPolicyTest, ANamedServiceIsRetriedButForWhatCarriesNoKey) {
  EXPECT_EQ(Arrivals(&Till::Stub::Charge, {kTill}), 5u);
  EXPECT_EQ(Arrivals(&Till::Stub::Balance, {kTill}), 5u);
  EXPECT_EQ(Arrivals(&Till::Stub::Log, {kTill}), 1u);
}

TEST_F(RetryPolicyTest, ANamedMethodIsRetriedAlone) {
  EXPECT_EQ(Arrivals(&Till::Stub::Tip, {kTip}), 5u);
  EXPECT_EQ(Arrivals(&Till::Stub::Charge, {kTip}), 1u);
}

TEST_F(RetryPolicyTest, AKeyedChannelRetriesTheSame) {
  const auto stub =
      Till::NewStub(CreateKeyedChannel(server_.address(), grpc::InsecureChannelCredentials()));
  server_.Script(Times(10, {Unavailable(), "1", false, false}));
  grpc::ClientContext unguarded;
  ChargeReply reply;
  EXPECT_FALSE(stub->Charge(&unguarded, request_, &reply).ok());
  EXPECT_THAT(server_.arrivals(), SizeIs(1));
  grpc::ClientContext guarded;
  EXPECT_FALSE(stub->Tip(&guarded, request_, &reply).ok());
  EXPECT_THAT(server_.arrivals(), SizeIs(6));
}

TEST_F(RetryPolicyTest, OnlyTheNamedServicesAreRetried) {
  server_.Script({{Unavailable(), {}, false, false}});
  EXPECT_TRUE(Charge(QuickPolicy(), {"other.v1.Other", "idempotency.testdata.Till"}).ok());
  server_.Script({{Unavailable(), {}, false, false}});
  EXPECT_FALSE(Charge(QuickPolicy(), {"other.v1.Other"}).ok());
  EXPECT_THAT(server_.arrivals(), SizeIs(3));
}

TEST(ServiceConfigJsonTest, Spelling) {
  RetryPolicy policy;
  policy.max_attempts = 4;
  policy.initial_backoff = absl::Milliseconds(1500);
  policy.max_backoff = absl::Seconds(20) + absl::Nanoseconds(1);
  policy.backoff_multiplier = 1.5;
  policy.retryable = {grpc::StatusCode::ABORTED, grpc::StatusCode::UNAVAILABLE};
  const auto json = ServiceConfigJson(policy, {"b.B", "a.A"});
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json, R"({"methodConfig":[{"name":[{"service":"a.A"},{"service":"b.B"}],)"
                   R"("retryPolicy":{"maxAttempts":4,"initialBackoff":"1.500000000s",)"
                   R"("maxBackoff":"20.000000001s","backoffMultiplier":1.500000,)"
                   R"("retryableStatusCodes":["ABORTED","UNAVAILABLE"]}}]})");
}

TEST(ServiceConfigJsonTest, AThrottleIsOfTheWholeConfig) {
  RetryPolicy policy;
  EXPECT_THAT(*ServiceConfigJson(policy, {"a.A"}), Not(HasSubstr("retryThrottling")));
  policy.throttle = {/*max_tokens=*/1000, /*token_ratio=*/0.125};
  const auto json = ServiceConfigJson(policy, {"a.A"});
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_THAT(*json, EndsWith(R"(]}}],"retryThrottling":{"maxTokens":1000,"tokenRatio":0.125}})"));
}

TEST(ServiceConfigJsonTest, RefusesWhatGrpcWouldRefuse) {
  const auto expect_refused = [](const char* field, auto change) {
    RetryPolicy policy;
    change(policy);
    const absl::Status status = ServiceConfigJson(policy).status();
    EXPECT_EQ(ReasonOf(status), Reason::kRequestInvalid) << field;
    ASSERT_THAT(DetailsOf(status).violations, SizeIs(1)) << field;
    EXPECT_EQ(DetailsOf(status).violations[0].field, field);
  };
  expect_refused("max_attempts", [](RetryPolicy& p) { p.max_attempts = 1; });
  expect_refused("max_attempts", [](RetryPolicy& p) { p.max_attempts = 6; });
  expect_refused("initial_backoff",
                 [](RetryPolicy& p) { p.initial_backoff = absl::ZeroDuration(); });
  expect_refused("max_backoff", [](RetryPolicy& p) { p.max_backoff = absl::InfiniteDuration(); });
  expect_refused("max_backoff", [](RetryPolicy& p) { p.max_backoff = -absl::Seconds(1); });
  expect_refused("backoff_multiplier", [](RetryPolicy& p) { p.backoff_multiplier = 0; });
  expect_refused("backoff_multiplier", [](RetryPolicy& p) {
    p.backoff_multiplier = std::numeric_limits<double>::quiet_NaN();
  });
  expect_refused("retryable", [](RetryPolicy& p) { p.retryable.clear(); });
  expect_refused("retryable", [](RetryPolicy& p) { p.retryable = {grpc::StatusCode::OK}; });
  for (const int max_tokens : {-1, 0, 1001}) {
    expect_refused("throttle.max_tokens", [max_tokens](RetryPolicy& p) {
      p.throttle = {max_tokens, /*token_ratio=*/0.1};
    });
  }
  for (const double ratio :
       {0.0, -0.1, 1e-10, 0.0001, 0.1234, 1000.5, std::numeric_limits<double>::quiet_NaN()}) {
    expect_refused("throttle.token_ratio", [ratio](RetryPolicy& p) {
      p.throttle = {/*max_tokens=*/10, ratio};
    });
  }
  expect_refused("per_rpc_retry_buffer_bytes",
                 [](RetryPolicy& p) { p.per_rpc_retry_buffer_bytes = std::size_t{1} << 31; });
}

TEST(ServiceConfigJsonTest, NamesMethodsOfServicesInThisProgram) {
  const auto json = ServiceConfigJson(RetryPolicy(), {kTip, "a.A/B"});
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_THAT(*json, HasSubstr(R"("name":[{"service":"a.A","method":"B"},)"
                               R"({"service":"idempotency.testdata.Till","method":"Tip"}])"));
}

TEST(ServiceConfigJsonTest, RefusesMethodsWhoseCallsCarryNoKey) {
  for (const char* method : {"Log", "ChargeMany", "Watch"}) {
    const absl::Status status =
        ServiceConfigJson(RetryPolicy(), {absl::StrCat(kTill, "/", method)}).status();
    EXPECT_EQ(ReasonOf(status), Reason::kRequestInvalid) << method;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(method), HasSubstr("carry no key")))
        << method;
  }
}

TEST(ServiceConfigJsonTest, RefusesMethodsThatTheServiceDoesNotHave) {
  const absl::Status status =
      ServiceConfigJson(RetryPolicy(), {absl::StrCat(kTill, "/Nothing")}).status();
  EXPECT_EQ(ReasonOf(status), Reason::kRequestInvalid);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not have"));
}

TEST(ServiceConfigJsonTest, RefusesNamesThatWouldNotBeOne) {
  for (const char* name : {"", "a\"b", "a b", "/", "a/", "/b", "a/b/c", "a/b\""}) {
    EXPECT_EQ(ReasonOf(ServiceConfigJson(RetryPolicy(), {name}).status()), Reason::kRequestInvalid)
        << name;
  }
}

TEST(RetryingChannelArgumentsDeathTest, AnInvalidPolicyAborts) {
  RetryPolicy policy;
  policy.max_attempts = 9;
  EXPECT_DEATH(RetryingChannelArguments(policy), "max_attempts");
}

}  // namespace
}  // namespace idempotency::internal
