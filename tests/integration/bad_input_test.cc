// Invalid input of callers, sent to a real idempotencyd: each is refused with a reason and the name
// of the field, nothing changes, and no part of the input appears in errors, logs or metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/uuid.h"
#include "tests/support/daemon_process.h"
#include "tests/support/metrics_page.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Parts of the tests' input; none may come back.
constexpr char kSecretKey[] = "secret-key-7c1d";
constexpr char kSecretBody[] = "secret-body-93fa";
constexpr char kSecretDigest[] = "secret-digest-of-32-bytes-41b8ce";
constexpr char kNilUuid[] = "00000000-0000-0000-0000-000000000000";

class BadInput : public ::testing::Test {
 protected:
  void TearDown() override {
    const std::string page = MetricsPage::Fetch(daemon_.metrics_address()).text();
    EXPECT_EQ(daemon_.Terminate().code, 0);
    const std::string log = daemon_.process().Stderr();
    EXPECT_THAT(log, HasSubstr("event=\"stopped\"")) << "the log is there to be looked at";
    for (const std::string& secret : secrets_) {
      EXPECT_THAT(log, Not(HasSubstr(secret)));
      EXPECT_THAT(page, Not(HasSubstr(secret)));
    }
  }

  // The refusal has its kind, the field, and the valid values; no part of the input.
  void ExpectRefused(const absl::Status& status, Reason reason, const std::string& field) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status.message();
    EXPECT_EQ(ReasonOf(status), reason) << status.message();
    EXPECT_NE(status.message(), "");
    const ErrorDetails details = DetailsOf(status);
    if (!field.empty()) {
      ASSERT_FALSE(details.violations.empty()) << status.message();
      EXPECT_EQ(details.violations[0].field, field);
      EXPECT_NE(details.violations[0].description, "");
    }
    const std::string everything = status.ToString(absl::StatusToStringMode::kWithEverything);
    for (const std::string& secret : secrets_) EXPECT_THAT(everything, Not(HasSubstr(secret)));
  }

  template <typename Request>
  void ExpectRefused(const Request& request, Reason reason, const std::string& field) {
    SCOPED_TRACE(absl::StrCat(Request::descriptor()->name(), ", ", field));
    ExpectRefused(client_.Call(request).status(), reason, field);
  }

  // A reservation for invalid requests.
  std::string Reserve(const std::string& key) {
    const auto reserved = client_.Call(SomeReserve(key));
    EXPECT_TRUE(reserved.ok()) << reserved.status();
    if (!reserved.ok()) return "";
    secrets_.push_back(reserved->reserved().reservation_token());
    return secrets_.back();
  }

  v1::Record Get(const std::string& key) {
    v1::GetRequest request = SomeGet(key);
    request.set_view(v1::RECORD_VIEW_FULL);
    const auto response = client_.Call(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->record() : v1::Record();
  }

  std::vector<std::string> secrets_ = {kSecretKey, kSecretBody, kSecretDigest};
  TempFolder folder_;
  DaemonProcess daemon_{"sqlite:" + folder_.File("records.db"), {"--log_level=debug"}};
  ServiceClient client_{daemon_.address()};
};

template <typename Request>
class BadRecordKey : public BadInput {
 protected:
  // Has a valid record key for every method.
  static Request Good() {
    Request request;
    *request.mutable_record_key() = SomeRecordKey(kSecretKey);
    return request;
  }
};

using Requests = ::testing::Types<v1::ReserveRequest, v1::CompleteRequest, v1::ReleaseRequest,
                                  v1::ExtendRequest, v1::GetRequest>;
struct RequestNames {
  template <typename Request>
  static std::string GetName(int /*index*/) {
    return Request::descriptor()->name();
  }
};
TYPED_TEST_SUITE(BadRecordKey, Requests, RequestNames);

TYPED_TEST(BadRecordKey, IsRefusedByEveryMethod) {
  TypeParam request = this->Good();
  request.clear_record_key();
  this->ExpectRefused(request, Reason::kRequestInvalid, "record_key");

  const std::string long_key = kSecretKey + std::string(limits::kMaxKeyBytes, 'k');
  const std::vector<std::pair<std::string, Reason>> keys = {
      {"", Reason::kKeyMissing},
      {long_key, Reason::kKeyInvalid},
      {absl::StrCat(kSecretKey, "\xc3\xa9"), Reason::kKeyInvalid},
      {absl::StrCat(kSecretKey, " "), Reason::kKeyInvalid},
      {absl::StrCat(kSecretKey, "\n"), Reason::kKeyInvalid},
  };
  for (const auto& [key, reason] : keys) {
    request = this->Good();
    request.mutable_record_key()->set_key(key);
    this->ExpectRefused(request, reason, "record_key.key");
  }

  const std::string controls = "secret-body-93fa\x01";
  request = this->Good();
  request.mutable_record_key()->set_namespace_("Secret-body-93fa");
  this->ExpectRefused(request, Reason::kRequestInvalid, "record_key.namespace");
  request = this->Good();
  request.mutable_record_key()->set_scope(controls);
  this->ExpectRefused(request, Reason::kRequestInvalid, "record_key.scope");
  request = this->Good();
  request.mutable_record_key()->set_operation(controls);
  this->ExpectRefused(request, Reason::kRequestInvalid, "record_key.operation");
}

TEST_F(BadInput, FingerprintsThatAreMissingOrNone) {
  v1::ReserveRequest request = SomeReserve(kSecretKey);
  request.clear_fingerprints();
  ExpectRefused(request, Reason::kRequestInvalid, "fingerprints");
  request = SomeReserve(kSecretKey);
  request.mutable_fingerprints(0)->clear_digest();
  ExpectRefused(request, Reason::kRequestInvalid, "fingerprints[0].digest");
  request = SomeReserve(kSecretKey);
  request.mutable_fingerprints(0)->set_digest(absl::StrCat(kSecretDigest, std::string(64, 'd')));
  ExpectRefused(request, Reason::kRequestInvalid, "fingerprints[0].digest");
  request = SomeReserve(kSecretKey);
  request.mutable_fingerprints(0)->set_version(0);
  ExpectRefused(request, Reason::kRequestInvalid, "fingerprints[0].version");
}

TEST_F(BadInput, TokensThatAreNoUuid) {
  for (const std::string& token :
       {std::string(), std::string(kSecretBody), std::string(kNilUuid)}) {
    ExpectRefused(SomeComplete(kSecretKey, token, kSecretBody), Reason::kRequestInvalid,
                  "reservation_token");
    ExpectRefused(SomeRelease(kSecretKey, token), Reason::kRequestInvalid, "reservation_token");
    ExpectRefused(SomeExtend(kSecretKey, token), Reason::kRequestInvalid, "reservation_token");
  }
  v1::ReserveRequest request = SomeReserve(kSecretKey);
  request.set_request_token(kSecretBody);
  ExpectRefused(request, Reason::kRequestInvalid, "request_token");
  v1::GetRequest get;
  get.set_record_id(kSecretBody);
  ExpectRefused(get, Reason::kRequestInvalid, "record_id");
}

TEST_F(BadInput, DurationsThatAreNegativeZeroOrAbsurd) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::pair<std::int64_t, std::int32_t>> durations = {
      {0, 0},
      {-1, 0},
      {0, -1},
      {1, -1},
      {kMost, 0},
      {-kMost, 0},
      {kMost, 999'999'999},
      {0, 2'000'000'000},
      {370 * 86400, 0},
  };
  const auto set = [](google::protobuf::Duration* duration, const auto& value) {
    duration->set_seconds(value.first);
    duration->set_nanos(value.second);
  };
  for (const auto& duration : durations) {
    SCOPED_TRACE(absl::StrCat(duration.first, " s ", duration.second, " ns"));
    v1::ReserveRequest request = SomeReserve(kSecretKey);
    set(request.mutable_lease(), duration);
    ExpectRefused(request, Reason::kRequestInvalid, "lease");
    request = SomeReserve(kSecretKey);
    set(request.mutable_retention(), duration);
    ExpectRefused(request, Reason::kRequestInvalid, "retention");
    v1::ExtendRequest extend = SomeExtend(kSecretKey, Uuid::Random().ToString());
    set(extend.mutable_lease(), duration);
    ExpectRefused(extend, Reason::kRequestInvalid, "lease");
    // No wait is valid.
    if (duration == durations.front()) continue;
    request = SomeReserve(kSecretKey);
    set(request.mutable_max_wait(), duration);
    ExpectRefused(request, Reason::kRequestInvalid, "max_wait");
  }
}

TEST_F(BadInput, LabelsAndMetadataOverTheirLimits) {
  v1::ReserveRequest request = SomeReserve(kSecretKey);
  (*request.mutable_labels())["build"] =
      absl::StrCat(kSecretBody, std::string(limits::kMaxLabelValueBytes, 'v'));
  ExpectRefused(request, Reason::kRequestInvalid, "labels");
  request = SomeReserve(kSecretKey);
  for (std::size_t i = 0; i <= limits::kMaxLabels; ++i) {
    (*request.mutable_labels())[absl::StrCat(kSecretBody, i)] = "v";
  }
  ExpectRefused(request, Reason::kRequestInvalid, "labels");

  const std::string token = Reserve("labels");
  v1::CompleteRequest complete = SomeComplete("labels", token, kSecretBody);
  v1::MetadataEntry& entry = *complete.mutable_reply()->add_trailing_metadata();
  entry.set_key("x-note");
  entry.set_value(absl::StrCat(kSecretBody, "\n"));
  ExpectRefused(complete, Reason::kRequestInvalid, "reply.trailing_metadata[0].value");
  v1::ReleaseRequest release = SomeRelease("labels", token);
  release.set_reason(absl::StrCat(kSecretBody, std::string(limits::kMaxReleaseReasonBytes, 'r')));
  ExpectRefused(release, Reason::kRequestInvalid, "reason");
  v1::ExtendRequest extend = SomeExtend("labels", token);
  extend.set_checkpoint(absl::StrCat(kSecretBody, std::string(limits::kMaxCheckpointBytes, 'c')));
  ExpectRefused(extend, Reason::kRequestInvalid, "checkpoint");
  // None of them has ended the reservation.
  EXPECT_TRUE(client_.Call(SomeComplete("labels", token, kSecretBody)).ok());
}

TEST_F(BadInput, MessagesThatAreMalformed) {
  const std::string good = SomeReserve(kSecretKey).SerializeAsString();
  std::string not_utf8 = good;
  not_utf8[not_utf8.find(kSecretKey)] = '\xff';
  const std::vector<std::string> bad = {
      absl::StrCat("\xff\xff\xff\xff", kSecretBody),
      good.substr(0, good.size() / 2),
      not_utf8,
  };
  for (const char* const method : {"Reserve", "Complete", "Release", "Extend", "Get"}) {
    for (const std::string& bytes : bad) {
      SCOPED_TRACE(method);
      ExpectRefused(client_.CallRaw(method, bytes), Reason::kRequestInvalid, "");
    }
  }
  EXPECT_TRUE(client_.CallRaw("Reserve", good).ok());
}

TEST_F(BadInput, AReplyOverTheLimitIsCompletedWithoutItsContentAndNeverReleased) {
  const std::string token = Reserve("huge");
  const std::string body = kSecretBody + std::string(9 << 20, 'b');
  const auto completed = client_.Call(SomeComplete("huge", token, body));
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(ReasonOf(client_.Call(SomeRelease("huge", token)).status()), Reason::kReservationLost);

  const v1::Record record = Get("huge");
  EXPECT_EQ(record.state(), v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(record.reply().content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_FALSE(record.reply().has_body());
  const auto replay = client_.Call(SomeReserve("huge"));
  ASSERT_TRUE(replay.ok() && replay->has_replay()) << replay.status();
  EXPECT_EQ(replay->replay().reply().content(), v1::REPLY_CONTENT_STATUS_ONLY);
  // The same Complete again is the same completion.
  EXPECT_TRUE(client_.Call(SomeComplete("huge", token, body)).ok());
}

TEST_F(BadInput, AMessageThatNoServiceReadsCostsNothing) {
  const std::string token = Reserve("too-much");
  const std::string body = kSecretBody + std::string(limits::kMaxMessageBytes, 'b');
  EXPECT_EQ(client_.Call(SomeComplete("too-much", token, body)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Get("too-much").state(), v1::RECORD_STATE_RESERVED);
  EXPECT_TRUE(client_.Call(SomeComplete("too-much", token, kSecretBody)).ok());
}

TEST_F(BadInput, WhatIsRightLeavesNoTraceEither) {
  v1::ReserveRequest request = SomeReserve(kSecretKey);
  request.mutable_fingerprints(0)->set_digest(kSecretDigest);
  const auto reserved = client_.Call(request);
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  const std::string token = reserved->reserved().reservation_token();
  const std::string stranger = Uuid::Random().ToString();
  secrets_.insert(secrets_.end(), {token, stranger});
  EXPECT_TRUE(client_.Call(request)->has_in_flight());
  const absl::Status lost = client_.Call(SomeComplete(kSecretKey, stranger, kSecretBody)).status();
  EXPECT_EQ(ReasonOf(lost), Reason::kReservationLost);
  EXPECT_TRUE(client_.Call(SomeComplete(kSecretKey, token, kSecretBody)).ok());
  EXPECT_EQ(client_.Call(request)->replay().reply().body(), kSecretBody);
  // A mismatch is logged, without the key.
  EXPECT_TRUE(client_.Call(SomeReserve(kSecretKey))->has_mismatch());
  EXPECT_EQ(MetricsPage::Fetch(daemon_.metrics_address()).Value("idempotency_mismatches_total"), 1);
  const std::string everything = lost.ToString(absl::StatusToStringMode::kWithEverything);
  for (const std::string& secret : secrets_) EXPECT_THAT(everything, Not(HasSubstr(secret)));
}

// At a guarded server.

class BadInputAtTheGuard : public BadInput {
 protected:
  // Answers with `payload`, and `trailer` as trailing metadata; takes any size.
  ProbeServer& Serve(std::string payload, std::string trailer) {
    ProbeServer::Options options;
    options.idempotencyd = daemon_.address();
    options.handler = [this, payload, trailer](grpc::ServerContextBase& context, const ActRequest&,
                                               ActReply& reply) {
      ++runs_;
      reply.set_payload(payload);
      if (!trailer.empty()) context.AddTrailingMetadata("x-note", trailer);
      return grpc::Status::OK;
    };
    options.configure = [](grpc::ServerBuilder& builder) {
      builder.SetMaxReceiveMessageSize(-1);
      builder.SetMaxSendMessageSize(-1);
    };
    server_ = std::make_unique<ProbeServer>(std::move(options));
    return *server_;
  }

  void TearDown() override {
    server_.reset();
    BadInput::TearDown();
  }

  std::atomic<int> runs_{0};
  std::unique_ptr<ProbeServer> server_;
};

TEST_F(BadInputAtTheGuard, ARequestAndAReplyOverTheLimitRunOnce) {
  const std::string large = kSecretBody + std::string(9 << 20, 'x');
  const ProbeClient client(Serve(large, "").address());
  Call call;
  call.account = large;
  call.keys = {kSecretKey};
  const Outcome first = client.Send(call);
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.reply().payload().size(), large.size());

  call.context = std::make_shared<grpc::ClientContext>();
  const Outcome retry = client.Send(call);
  EXPECT_EQ(retry.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(retry.reason(), Reason::kReplyNotKept);
  EXPECT_THAT(retry.status.error_message(), Not(HasSubstr(kSecretBody)));
  EXPECT_EQ(runs_, 1);

  // Another request under the key is detected, at any size.
  call.account.back() = 'y';
  call.context = std::make_shared<grpc::ClientContext>();
  EXPECT_EQ(client.Send(call).reason(), Reason::kKeyReused);
}

TEST_F(BadInputAtTheGuard, MetadataOverGrpcsLimitCostsNothing) {
  const std::string address = Serve("", "").address();
  Call call;
  call.keys = {kSecretKey};
  call.metadata = {{"x-note", kSecretBody + std::string(64 << 10, 'n')}};
  EXPECT_EQ(ProbeClient(address).Send(call).status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(runs_, 0);
  // gRPC may close the connection that carried too many bytes, during the next call.
  const Outcome right = ProbeClient(address).Act(kSecretKey);
  EXPECT_TRUE(right.status.ok()) << right.status.error_message();
  EXPECT_EQ(runs_, 1);
}

TEST_F(BadInputAtTheGuard, AReplyWithMetadataOverGrpcsLimitFailsTheSameWayOnReplay) {
  const std::string address = Serve("", kSecretBody + std::string(64 << 10, 'n')).address();
  // gRPC may close the connection that carried too many bytes, during the next call.
  for (int call = 0; call < 2; ++call) {
    EXPECT_EQ(ProbeClient(address).Act(kSecretKey).status.error_code(),
              grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  EXPECT_EQ(runs_, 1);
}

}  // namespace
}  // namespace idempotency::internal::testing
