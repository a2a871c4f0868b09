#include "server/operation/wire_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

constexpr char kToken[] = "0b9f2d0e-6d1c-4c43-9a53-0d8d6e0f6a11";
constexpr char kNilUuid[] = "00000000-0000-0000-0000-000000000000";
// A byte that no name may contain.
constexpr char kControl[] = "a\x01z";

// One fault in an otherwise valid request.
template <typename Request>
struct BadField {
  std::string what;
  std::function<void(Request&)> spoil;
  Reason reason;
  // The violation's field.
  std::string field;
};

template <typename Request>
void PrintTo(const BadField<Request>& bad, std::ostream* out) {
  *out << bad.what;
}

template <typename Request, typename Parse>
void ExpectRefused(Request request, const BadField<Request>& bad, Parse parse) {
  ASSERT_TRUE(parse(request).ok()) << parse(request).status();
  bad.spoil(request);
  const absl::Status status = parse(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), bad.reason) << status;
  const ErrorDetails details = DetailsOf(status);
  ASSERT_FALSE(details.violations.empty()) << status.message();
  EXPECT_EQ(details.violations[0].field, bad.field);
  EXPECT_FALSE(details.violations[0].description.empty());
}

template <typename Request, typename Parse>
void ExpectRefused(const Request& good, const std::vector<BadField<Request>>& cases, Parse parse) {
  for (const BadField<Request>& bad : cases) {
    SCOPED_TRACE(bad.what);
    ExpectRefused(good, bad, parse);
  }
}

void SetKey(v1::RecordKey& key) {
  key.set_namespace_("payments");
  key.set_scope("tenant-1");
  key.set_operation("/payments.v1.Payments/Charge");
  key.set_key("key-1");
}

// The possible faults of a record key, in any request that has one.
template <typename Request>
std::vector<BadField<Request>> BadRecordKeys() {
  const Reason invalid = Reason::kRequestInvalid;
  return {
      {"no record key", [](Request& r) { r.clear_record_key(); }, invalid, "record_key"},
      {"no namespace", [](Request& r) { r.mutable_record_key()->clear_namespace_(); }, invalid,
       "record_key.namespace"},
      {"namespace in capitals",
       [](Request& r) { r.mutable_record_key()->set_namespace_("Payments"); }, invalid,
       "record_key.namespace"},
      {"no scope", [](Request& r) { r.mutable_record_key()->clear_scope(); }, invalid,
       "record_key.scope"},
      {"scope with a control character",
       [](Request& r) { r.mutable_record_key()->set_scope(kControl); }, invalid,
       "record_key.scope"},
      {"operation too long",
       [](Request& r) {
         r.mutable_record_key()->set_operation(std::string(limits::kMaxOperationBytes + 1, 'o'));
       },
       invalid, "record_key.operation"},
      {"no key", [](Request& r) { r.mutable_record_key()->clear_key(); }, Reason::kKeyMissing,
       "record_key.key"},
      {"key too long",
       [](Request& r) {
         r.mutable_record_key()->set_key(std::string(limits::kMaxKeyBytes + 1, 'k'));
       },
       Reason::kKeyInvalid, "record_key.key"},
      {"key with a blank", [](Request& r) { r.mutable_record_key()->set_key("a b"); },
       Reason::kKeyInvalid, "record_key.key"},
  };
}

// The same for a reservation token.
template <typename Request>
std::vector<BadField<Request>> BadRecordKeysAndTokens() {
  auto cases = BadRecordKeys<Request>();
  const Reason invalid = Reason::kRequestInvalid;
  cases.push_back(
      {"no token", [](Request& r) { r.clear_reservation_token(); }, invalid, "reservation_token"});
  cases.push_back({"token that is no UUID", [](Request& r) { r.set_reservation_token("secret"); },
                   invalid, "reservation_token"});
  cases.push_back({"nil token", [](Request& r) { r.set_reservation_token(kNilUuid); }, invalid,
                   "reservation_token"});
  return cases;
}

void Set(google::protobuf::Duration& duration, std::int64_t seconds, std::int32_t nanos) {
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
}

// Values that no duration of a request may have.
template <typename Request>
void AddBadDurations(const std::string& field,
                     google::protobuf::Duration* (Request::*mutable_field)(),
                     std::vector<BadField<Request>>& cases) {
  const std::vector<std::pair<std::int64_t, std::int32_t>> values = {
      {-1, 0},
      {0, -1},
      {1, -1},
      {-1, 1},
      {0, 1'000'000'000},
      {0, std::numeric_limits<std::int32_t>::min()},
      {315'576'000'001, 0},
      {std::numeric_limits<std::int64_t>::max(), 999'999'999},
      {std::numeric_limits<std::int64_t>::min(), 0},
      {366 * 24 * 3600 + 1, 0},
  };
  for (const auto& [seconds, nanos] : values) {
    cases.push_back(
        {field + " " + std::to_string(seconds) + " s " + std::to_string(nanos) + " ns",
         [mutable_field, s = seconds, n = nanos](Request& r) { Set(*(r.*mutable_field)(), s, n); },
         Reason::kRequestInvalid, field});
  }
}

v1::ReserveRequest GoodReserve() {
  v1::ReserveRequest request;
  SetKey(*request.mutable_record_key());
  v1::Fingerprint& fingerprint = *request.add_fingerprints();
  fingerprint.set_version(1);
  fingerprint.set_digest(std::string(32, 'f'));
  return request;
}

absl::StatusOr<ReserveOp> ParseReserve(const v1::ReserveRequest& request) {
  return ReserveOpFrom(request, limits::kDefaultWindow);
}

using BadReservation = BadField<v1::ReserveRequest>;

class BadReservationTest : public ::testing::TestWithParam<BadReservation> {};

TEST_P(BadReservationTest, IsRefused) { ExpectRefused(GoodReserve(), GetParam(), ParseReserve); }

std::vector<BadReservation> BadDurationsOfReservations() {
  using Request = v1::ReserveRequest;
  std::vector<BadReservation> cases;
  AddBadDurations("lease", &Request::mutable_lease, cases);
  AddBadDurations("retention", &Request::mutable_retention, cases);
  AddBadDurations("reply_retention", &Request::mutable_reply_retention, cases);
  AddBadDurations("tombstone", &Request::mutable_tombstone, cases);
  return cases;
}

INSTANTIATE_TEST_SUITE_P(RecordKey, BadReservationTest,
                         ::testing::ValuesIn(BadRecordKeys<v1::ReserveRequest>()));
INSTANTIATE_TEST_SUITE_P(Durations, BadReservationTest,
                         ::testing::ValuesIn(BadDurationsOfReservations()));

INSTANTIATE_TEST_SUITE_P(
    Terms, BadReservationTest,
    ::testing::ValuesIn(std::vector<BadReservation>{
        {"reply retention over the retention",
         [](v1::ReserveRequest& r) {
           Set(*r.mutable_retention(), 60, 0);
           Set(*r.mutable_reply_retention(), 60, 1);
         },
         Reason::kRequestInvalid, "reply_retention"},
        {"lease of 0", [](v1::ReserveRequest& r) { r.mutable_lease(); }, Reason::kRequestInvalid,
         "lease"},
        {"lease over an hour", [](v1::ReserveRequest& r) { Set(*r.mutable_lease(), 3601, 0); },
         Reason::kRequestInvalid, "lease"},
        {"retention under a second",
         [](v1::ReserveRequest& r) { Set(*r.mutable_retention(), 0, 999'999'999); },
         Reason::kRequestInvalid, "retention"},
        {"retention under the lease",
         [](v1::ReserveRequest& r) {
           Set(*r.mutable_lease(), 10, 0);
           Set(*r.mutable_retention(), 9, 0);
         },
         Reason::kRequestInvalid, "retention"},
        {"unheard-of lease expiry",
         [](v1::ReserveRequest& r) { r.set_on_lease_expiry(static_cast<v1::LeaseExpiry>(17)); },
         Reason::kRequestInvalid, "on_lease_expiry"},
    }));

INSTANTIATE_TEST_SUITE_P(
    Fingerprints, BadReservationTest,
    ::testing::ValuesIn(std::vector<BadReservation>{
        {"no fingerprint", [](v1::ReserveRequest& r) { r.clear_fingerprints(); },
         Reason::kRequestInvalid, "fingerprints"},
        {"five fingerprints",
         [](v1::ReserveRequest& r) {
           for (int i = 2; i <= 5; ++i) *r.add_fingerprints() = r.fingerprints(0);
         },
         Reason::kRequestInvalid, "fingerprints"},
        {"fingerprint version 0",
         [](v1::ReserveRequest& r) { r.mutable_fingerprints(0)->clear_version(); },
         Reason::kRequestInvalid, "fingerprints[0].version"},
        {"a version with a key and without",
         [](v1::ReserveRequest& r) {
           *r.add_fingerprints() = ToProto(Fingerprint{1, std::string(32, 'k'), 7});
         },
         Reason::kRequestInvalid, "fingerprints[1].version"},
        {"short digest",
         [](v1::ReserveRequest& r) { r.mutable_fingerprints(0)->set_digest("short"); },
         Reason::kRequestInvalid, "fingerprints[0].digest"},
    }));

INSTANTIATE_TEST_SUITE_P(RequestToken, BadReservationTest,
                         ::testing::ValuesIn(std::vector<BadReservation>{
                             {"request token that is no UUID",
                              [](v1::ReserveRequest& r) { r.set_request_token("mine"); },
                              Reason::kRequestInvalid, "request_token"},
                             {"nil request token",
                              [](v1::ReserveRequest& r) { r.set_request_token(kNilUuid); },
                              Reason::kRequestInvalid, "request_token"},
                         }));

INSTANTIATE_TEST_SUITE_P(
    ParentAndLabels, BadReservationTest,
    ::testing::ValuesIn(std::vector<BadReservation>{
        {"empty parent", [](v1::ReserveRequest& r) { r.mutable_parent(); }, Reason::kRequestInvalid,
         "parent.namespace"},
        {"parent without a key",
         [](v1::ReserveRequest& r) {
           SetKey(*r.mutable_parent());
           r.mutable_parent()->clear_key();
         },
         Reason::kRequestInvalid, "parent.key"},
        {"17 labels",
         [](v1::ReserveRequest& r) {
           for (int i = 0; i < 17; ++i) (*r.mutable_labels())[std::to_string(i)] = "";
         },
         Reason::kRequestInvalid, "labels"},
        {"label without a key", [](v1::ReserveRequest& r) { (*r.mutable_labels())[""] = "v"; },
         Reason::kRequestInvalid, "labels"},
        {"long label key",
         [](v1::ReserveRequest& r) {
           (*r.mutable_labels())[std::string(limits::kMaxLabelKeyBytes + 1, 'k')] = "v";
         },
         Reason::kRequestInvalid, "labels"},
        {"long label value",
         [](v1::ReserveRequest& r) {
           (*r.mutable_labels())["k"] = std::string(limits::kMaxLabelValueBytes + 1, 'v');
         },
         Reason::kRequestInvalid, "labels"},
        {"label with a NUL",
         [](v1::ReserveRequest& r) { (*r.mutable_labels())["k"] = std::string("a\0b", 3); },
         Reason::kRequestInvalid, "labels"},
    }));

// protobuf's maps have another order in every message.
TEST(WireRequestTest, ReportsTheSameOfTwoBadLabelsEachTime) {
  for (int i = 0; i < 50; ++i) {
    v1::ReserveRequest request = GoodReserve();
    for (int label = 0; label < i % 10; ++label) {
      (*request.mutable_labels())["good-" + std::to_string(label)] = "";
    }
    (*request.mutable_labels())[""] = "bad key";
    (*request.mutable_labels())["bad value"] = std::string(1, '\0');
    EXPECT_THAT(std::string(ParseReserve(request).status().message()),
                ::testing::HasSubstr("every key"));
  }
}

TEST(WireRequestTest, RefusesBadWaits) {
  using Request = v1::ReserveRequest;
  std::vector<BadField<Request>> cases;
  AddBadDurations("max_wait", &Request::mutable_max_wait, cases);
  cases.push_back({"over a minute", [](Request& r) { Set(*r.mutable_max_wait(), 60, 1); },
                   Reason::kRequestInvalid, "max_wait"});
  ExpectRefused(GoodReserve(), cases, MaxWaitFrom);
}

TEST(WireRequestTest, ReadsAReservation) {
  v1::ReserveRequest request = GoodReserve();
  request.mutable_record_key()->set_key("0B9F2D0E-6D1C-4C43-9A53-0D8D6E0F6A11");
  request.set_request_token(kToken);
  Set(*request.mutable_lease(), 0, 10'000'000);
  Set(*request.mutable_retention(), 3600, 0);
  Set(*request.mutable_max_wait(), 2, 500'000'000);
  request.set_on_lease_expiry(v1::LEASE_EXPIRY_REQUIRE_RECOVERY);
  request.set_recover(true);
  SetKey(*request.mutable_parent());
  (*request.mutable_labels())["build"] = "42";

  const absl::StatusOr<ReserveOp> op = ReserveOpFrom(request, absl::Hours(7));
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ(op->key.key, kToken) << "a UUID is compared in lower case";
  EXPECT_EQ(op->id, RecordIdFor(op->key));
  EXPECT_EQ(op->fingerprints.size(), 1u);
  EXPECT_EQ(op->request_token, Uuid::Parse(kToken));
  EXPECT_EQ(op->lease, absl::Milliseconds(10));
  EXPECT_EQ(op->retention, absl::Hours(1));
  EXPECT_EQ(op->window, absl::Hours(7));
  EXPECT_EQ(op->on_lease_expiry, LeaseExpiry::kRequireRecovery);
  EXPECT_TRUE(op->recover);
  ASSERT_TRUE(op->parent.has_value());
  EXPECT_EQ(op->parent->key, "key-1");
  EXPECT_EQ(op->labels.at("build"), "42");
  EXPECT_EQ(*MaxWaitFrom(request), absl::Milliseconds(2500));
}

TEST(WireRequestTest, CutsDurationsToWholeMicroseconds) {
  v1::ReserveRequest request = GoodReserve();
  Set(*request.mutable_lease(), 1, 999'999'999);
  Set(*request.mutable_retention(), 5, 1'000);
  Set(*request.mutable_reply_retention(), 2, 1'001);
  request.set_relaxed(true);
  Set(*request.mutable_tombstone(), 0, 999);
  const absl::StatusOr<ReserveOp> op = ParseReserve(request);
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ(op->lease, absl::Microseconds(1'999'999));
  EXPECT_EQ(op->retention, absl::Microseconds(5'000'001));
  EXPECT_EQ(op->reply_retention, absl::Microseconds(2'000'001));
  EXPECT_TRUE(op->relaxed);
  EXPECT_EQ(op->tombstone, absl::ZeroDuration());
}

TEST(WireRequestTest, NamesEveryFaultOfARequest) {
  v1::ReserveRequest request = GoodReserve();
  request.mutable_record_key()->set_scope("");
  request.mutable_record_key()->set_key("");
  request.mutable_fingerprints(0)->set_version(0);
  request.mutable_fingerprints(0)->set_digest("");
  request.set_request_token("17");
  Set(*request.mutable_lease(), 3601, 0);
  Set(*request.mutable_retention(), 0, 1);
  Set(*request.mutable_tombstone(), -1, 0);
  Set(*request.mutable_max_wait(), 61, 0);
  request.set_on_lease_expiry(static_cast<v1::LeaseExpiry>(17));
  request.mutable_parent();
  (*request.mutable_labels())[""] = kControl;
  const absl::Status status = ParseReserve(request).status();
  EXPECT_EQ(ReasonOf(status), Reason::kKeyMissing) << "the key's own reason";
  // The message holds as many as fit, the violations name every one.
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(::testing::HasSubstr("record_key.scope: "),
                               ::testing::ContainsRegex("; and [0-9]+ more faults$")));
  std::vector<std::string> fields;
  for (const FieldViolation& violation : DetailsOf(status).violations) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, ::testing::ElementsAre(
                          "record_key.scope", "record_key.key", "fingerprints[0].version",
                          "fingerprints[0].digest", "request_token", "lease", "retention",
                          "tombstone", "max_wait", "on_lease_expiry", "parent.namespace",
                          "parent.scope", "parent.operation", "parent.key", "labels", "labels"));
}

TEST(WireRequestTest, ADigestOfVersion1HasExactly32Bytes) {
  for (const std::size_t size : {16u, 20u, 31u, 33u, 64u}) {
    v1::ReserveRequest request = GoodReserve();
    request.mutable_fingerprints(0)->set_version(1);
    request.mutable_fingerprints(0)->set_digest(std::string(size, 'd'));
    const absl::Status status = ParseReserve(request).status();
    ASSERT_EQ(ReasonOf(status), Reason::kRequestInvalid) << size;
    EXPECT_EQ(DetailsOf(status).violations[0].field, "fingerprints[0].digest");
    request.mutable_fingerprints(0)->set_version(2);
    EXPECT_TRUE(ParseReserve(request).ok()) << size;
  }
}

TEST(WireRequestTest, FillsInTheDefaultsOfAReservation) {
  v1::ReserveRequest request = GoodReserve();
  absl::StatusOr<ReserveOp> op = ParseReserve(request);
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ(op->lease, limits::kDefaultLease);
  EXPECT_EQ(op->retention, limits::kDefaultRetention);
  EXPECT_EQ(op->on_lease_expiry, LeaseExpiry::kRequireRecovery);
  EXPECT_FALSE(op->request_token.has_value());
  EXPECT_FALSE(op->parent.has_value());
  EXPECT_EQ(*MaxWaitFrom(request), absl::ZeroDuration());

  Set(*request.mutable_retention(), 5, 0);
  op = ParseReserve(request);
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ(op->lease, absl::Seconds(5)) << "it ends with the record";
}

v1::CompleteRequest GoodComplete() {
  v1::CompleteRequest request;
  SetKey(*request.mutable_record_key());
  request.set_reservation_token(kToken);
  v1::MetadataEntry& text = *request.mutable_reply()->add_initial_metadata();
  text.set_key("x-trace");
  text.set_value("a b");
  v1::MetadataEntry& binary = *request.mutable_reply()->add_trailing_metadata();
  binary.set_key("x-data-bin");
  binary.set_value(std::string("\0\xff", 2));
  return request;
}

TEST(WireRequestTest, RefusesBadCompletions) {
  using Request = v1::CompleteRequest;
  const Reason invalid = Reason::kRequestInvalid;
  auto cases = BadRecordKeysAndTokens<Request>();
  const std::vector<BadField<Request>> more = {
      {"no reply", [](Request& r) { r.clear_reply(); }, invalid, "reply"},
      {"negative code", [](Request& r) { r.mutable_reply()->set_code(-1); }, invalid, "reply.code"},
      {"code 17", [](Request& r) { r.mutable_reply()->set_code(17); }, invalid, "reply.code"},
      {"unheard-of content",
       [](Request& r) { r.mutable_reply()->set_content(static_cast<v1::ReplyContent>(17)); },
       invalid, "reply.content"},
      {"unheard-of compression level",
       [](Request& r) { r.mutable_reply()->set_compression_level(4); }, invalid,
       "reply.compression_level"},
      {"metadata without a key",
       [](Request& r) { r.mutable_reply()->mutable_initial_metadata(0)->clear_key(); }, invalid,
       "reply.initial_metadata[0].key"},
      {"metadata key in capitals",
       [](Request& r) { r.mutable_reply()->mutable_trailing_metadata(0)->set_key("X-Data-Bin"); },
       invalid, "reply.trailing_metadata[0].key"},
      {"metadata with a line break",
       [](Request& r) { r.mutable_reply()->mutable_initial_metadata(0)->set_value("a\nb"); },
       invalid, "reply.initial_metadata[0].value"},
  };
  cases.insert(cases.end(), more.begin(), more.end());
  ExpectRefused(GoodComplete(), cases, CompleteOpFrom);
}

TEST(WireRequestTest, KeepsAReplyWholeUpToTheLimit) {
  v1::CompleteRequest request = GoodComplete();
  request.mutable_reply()->set_message("done");
  v1::Reply& reply = *request.mutable_reply();
  reply.set_body(std::string(limits::kMaxReplyBytes - ReplyBytes(reply) - 8, 'b'));
  ASSERT_LE(ReplyBytes(reply), limits::kMaxReplyBytes);
  absl::StatusOr<CompleteOp> op = CompleteOpFrom(request);
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ(DecodeReply(op->reply)->body(), reply.body());

  reply.mutable_body()->append(16, 'b');
  op = CompleteOpFrom(request);
  ASSERT_TRUE(op.ok()) << op.status();
  const v1::Reply stored = *DecodeReply(op->reply);
  EXPECT_EQ(stored.content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_EQ(stored.message(), "done");
  EXPECT_FALSE(stored.has_body());
}

TEST(WireRequestTest, RefusesBadReleases) {
  using Request = v1::ReleaseRequest;
  const Reason invalid = Reason::kRequestInvalid;
  Request good;
  SetKey(*good.mutable_record_key());
  good.set_reservation_token(kToken);
  auto cases = BadRecordKeysAndTokens<Request>();
  cases.push_back(
      {"long reason",
       [](Request& r) { r.set_reason(std::string(limits::kMaxReleaseReasonBytes + 1, 'r')); },
       invalid, "reason"});
  cases.push_back({"reason with a control character", [](Request& r) { r.set_reason(kControl); },
                   invalid, "reason"});
  cases.push_back({"unheard-of outcome",
                   [](Request& r) { r.set_outcome(static_cast<v1::ReleaseOutcome>(17)); }, invalid,
                   "outcome"});
  cases.push_back(
      {"negative pause", [](Request& r) { Set(*r.mutable_pause(), -1, 0); }, invalid, "pause"});
  cases.push_back({"pause over an hour", [](Request& r) { Set(*r.mutable_pause(), 3600, 1); },
                   invalid, "pause"});
  ExpectRefused(good, cases, ReleaseOpFrom);

  EXPECT_EQ(ReleaseOpFrom(good)->pause, absl::ZeroDuration());
  Set(*good.mutable_pause(), 3600, 0);
  EXPECT_EQ(ReleaseOpFrom(good)->pause, limits::kMaxReleasePause);
  EXPECT_FALSE(ReleaseOpFrom(good)->outcome_unknown);
  good.set_outcome(v1::RELEASE_OUTCOME_OUTCOME_UNKNOWN);
  EXPECT_TRUE(ReleaseOpFrom(good)->outcome_unknown);
}

TEST(WireRequestTest, RefusesBadExtensions) {
  using Request = v1::ExtendRequest;
  Request good;
  SetKey(*good.mutable_record_key());
  good.set_reservation_token(kToken);
  auto cases = BadRecordKeysAndTokens<Request>();
  AddBadDurations("lease", &Request::mutable_lease, cases);
  cases.push_back(
      {"long checkpoint",
       [](Request& r) { r.set_checkpoint(std::string(limits::kMaxCheckpointBytes + 1, 'c')); },
       Reason::kRequestInvalid, "checkpoint"});
  ExpectRefused(good, cases, ExtendOpFrom);

  EXPECT_FALSE(ExtendOpFrom(good)->checkpoint.has_value());
  good.set_checkpoint(std::string(limits::kMaxCheckpointBytes, '\0'));
  EXPECT_EQ(ExtendOpFrom(good)->checkpoint, good.checkpoint());
}

TEST(WireRequestTest, RefusesBadReads) {
  using Request = v1::GetRequest;
  const Reason invalid = Reason::kRequestInvalid;
  Request good;
  SetKey(*good.mutable_record_key());
  auto cases = BadRecordKeys<Request>();
  cases.push_back({"record id that is no UUID", [](Request& r) { r.set_record_id("17"); }, invalid,
                   "record_id"});
  cases.push_back({"record id of another key", [](Request& r) { r.set_record_id(kToken); }, invalid,
                   "record_id"});
  cases.push_back({"unheard-of view",
                   [](Request& r) { r.set_view(static_cast<v1::RecordView>(17)); }, invalid,
                   "view"});
  ExpectRefused(good, cases, GetOpFrom);
}

TEST(WireRequestTest, ReadsByKeyOrById) {
  v1::GetRequest by_id;
  by_id.set_record_id(kToken);
  EXPECT_EQ(GetOpFrom(by_id)->id, *Uuid::Parse(kToken));
  EXPECT_FALSE(GetOpFrom(by_id)->key.has_value());

  v1::GetRequest by_key;
  SetKey(*by_key.mutable_record_key());
  const absl::StatusOr<GetOp> op = GetOpFrom(by_key);
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ(op->id, RecordIdFor(*op->key));
  by_key.set_record_id(op->id.ToString());
  EXPECT_TRUE(GetOpFrom(by_key).ok()) << "both, if they agree";
}

}  // namespace
}  // namespace idempotency::internal
