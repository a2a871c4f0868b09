#include "tests/conformance/store_fixture.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/reply.h"

namespace idempotency::internal {

std::vector<StoreUnderTest> StoresUnder(const std::string& suite) {
  std::vector<StoreUnderTest> stores = StoresUnderTest();
  const auto is_left_out = [&suite](const StoreUnderTest& store) {
    const std::vector<std::string>& suites = store.suites;
    return !suites.empty() && std::find(suites.begin(), suites.end(), suite) == suites.end();
  };
  stores.erase(std::remove_if(stores.begin(), stores.end(), is_left_out), stores.end());
  return stores;
}

std::string NameOf(const absl::StatusOr<Verdict>& verdict) {
  if (!verdict.ok()) {
    const std::optional<Reason> reason = ReasonOf(verdict.status());
    return reason ? std::string(ReasonName(*reason)) : verdict.status().ToString();
  }
  constexpr std::array<const char*, 6> kNames = {"Reserved", "Replay",         "InFlight",
                                                 "Mismatch", "OutcomeUnknown", "Expired"};
  return kNames[verdict->index()];
}

namespace {

std::string DescribeKey(const RecordKey& key) {
  return absl::StrCat(key.name_space, "|", key.scope, "|", key.operation, "|", key.key);
}

}  // namespace

std::string Describe(const absl::StatusOr<Record>& result) {
  if (!result.ok()) return result.status().ToString();
  const Record& record = *result;
  std::string text = absl::StrCat(
      "id=", record.id.ToString(), " key=", DescribeKey(record.key),
      " state=", static_cast<int>(record.state), " attempt=", record.attempt,
      " policy=", static_cast<int>(record.on_lease_expiry), " reason=", record.release_reason,
      " created=", absl::ToUnixMicros(record.created_at),
      " lease=", absl::ToUnixMicros(record.lease_expires_at),
      " expires=", absl::ToUnixMicros(record.expires_at));
  if (record.reply_expires_at) {
    absl::StrAppend(&text, " reply until=", absl::ToUnixMicros(*record.reply_expires_at));
  }
  if (record.tombstone_until) {
    absl::StrAppend(&text, " tombstone=", absl::ToUnixMicros(*record.tombstone_until));
  }
  for (const Fingerprint& print : record.fingerprints) {
    absl::StrAppend(&text, " print=", print.version, ":", absl::CHexEscape(print.digest));
  }
  if (record.parent) absl::StrAppend(&text, " parent=", DescribeKey(*record.parent));
  for (const auto& [name, value] : record.labels) absl::StrAppend(&text, " ", name, "=", value);
  if (record.completed_at) {
    absl::StrAppend(&text, " completed=", absl::ToUnixMicros(*record.completed_at));
  }
  if (record.reply) absl::StrAppend(&text, " reply=", absl::CHexEscape(record.reply->bytes));
  return text;
}

void StoreTest::SetUp() {
  absl::StatusOr<std::unique_ptr<StoreHarness>> made = GetParam().make();
  ASSERT_THAT(made, Succeeds());
  harness_ = *std::move(made);
}

ReserveOp StoreTest::OpFor(const std::string& key) {
  ReserveOp op;
  op.key = {"payments", "tenant-1", "/payments.v1.Payments/Charge", key};
  op.id = RecordIdFor(op.key);
  op.fingerprints = {Print(1, 'a')};
  op.on_lease_expiry = LeaseExpiry::kTakeOver;
  return op;
}

Fingerprint StoreTest::Print(std::uint32_t version, char digest) {
  return {version, std::string(32, digest)};
}

EncodedReply StoreTest::ReplyWith(const std::string& body) {
  v1::Reply reply;
  reply.set_body(body);
  return EncodeReply(reply);
}

absl::StatusOr<Verdict> StoreTest::Reserve(const ReserveOp& op) {
  return store().Reserve({&op, 1}).at(0);
}

absl::StatusOr<Completion> StoreTest::Complete(const ReserveOp& of, const Uuid& token,
                                               const std::string& body) {
  const CompleteOp op{of.key, of.id, token, ReplyWith(body)};
  return store().Complete({&op, 1}).at(0);
}

absl::Status StoreTest::Release(const ReserveOp& of, const Uuid& token, bool outcome_unknown,
                                absl::Duration pause) {
  const ReleaseOp op{of.key, of.id, token, "the reason", outcome_unknown, pause};
  return store().Release({&op, 1}).at(0);
}

absl::StatusOr<Extension> StoreTest::Extend(const ReserveOp& of, const Uuid& token,
                                            absl::Duration lease,
                                            std::optional<std::string> checkpoint) {
  const ExtendOp op{of.key, of.id, token, lease, std::move(checkpoint)};
  return store().Extend({&op, 1}).at(0);
}

absl::StatusOr<Record> StoreTest::Get(const ReserveOp& of) {
  const GetOp op{of.id, of.key};
  return store().Get({&op, 1}).at(0);
}

Record StoreTest::MustGet(const ReserveOp& of) {
  absl::StatusOr<Record> record = Get(of);
  EXPECT_THAT(record, Succeeds());
  return record.ok() ? *std::move(record) : Record();
}

void StoreTest::ExpectFingerprints(const Record& record, const ReserveOp& op) {
  EXPECT_EQ(store().MatchRequest(record, op), FingerprintMatch::kSame);
  if (!GetParam().keys_fingerprints_because) {
    EXPECT_EQ(record.fingerprints, op.fingerprints);
    return;
  }
  ASSERT_EQ(record.fingerprints.size(), op.fingerprints.size());
  for (std::size_t i = 0; i < op.fingerprints.size(); ++i) {
    EXPECT_EQ(record.fingerprints[i].version, op.fingerprints[i].version);
    EXPECT_NE(record.fingerprints[i].digest, op.fingerprints[i].digest);
  }
}

SweepProgress StoreTest::SweepAll(int limit) {
  SweepProgress total;
  SweepOp op;
  op.limit = limit;
  do {
    const absl::StatusOr<SweepProgress> page = store().Sweep(op);
    EXPECT_THAT(page, Succeeds());
    if (!page.ok()) break;
    EXPECT_LE(page->visited, limit);
    EXPECT_FALSE(page->elsewhere);
    total.removed += page->removed;
    total.marked_unknown += page->marked_unknown;
    total.entombed += page->entombed;
    total.replies_dropped += page->replies_dropped;
    op.after = page->next;
  } while (op.after);
  return total;
}

}  // namespace idempotency::internal
