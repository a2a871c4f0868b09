#include "tests/conformance/admin_fixture.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace idempotency::internal {

std::string AdminTest::NameOf(Situation situation) {
  constexpr std::array<const char*, 12> kNames = {"missing",
                                                  "live",
                                                  "live, recovery",
                                                  "lapsed",
                                                  "lapsed, recovery",
                                                  "unknown",
                                                  "unknown past its expiry",
                                                  "completed",
                                                  "released",
                                                  "paused",
                                                  "forgotten",
                                                  "tombstone"};
  return kNames.at(static_cast<std::size_t>(situation));
}

AdminTest::Case AdminTest::Make(Situation situation) {
  Case made;
  made.op = OpFor(absl::StrCat("key-", ++made_));
  made.op.retention = absl::Hours(1);
  if (situation == Situation::kLiveRecovery || situation == Situation::kLapsedRecovery ||
      situation == Situation::kUnknown || situation == Situation::kUnknownPastExpiry) {
    made.op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  }
  if (situation == Situation::kTombstone) made.op.tombstone = absl::Hours(5);
  if (situation == Situation::kMissing) return made;
  made.token = MustReserve(made.op).token;
  switch (situation) {
    case Situation::kLapsed:
    case Situation::kLapsedRecovery:
      Advance(made.op.lease);
      break;
    case Situation::kUnknown:
    case Situation::kUnknownPastExpiry:
      EXPECT_THAT(Release(made.op, made.token, /*outcome_unknown=*/true), Succeeds());
      if (situation == Situation::kUnknownPastExpiry) Advance(absl::Hours(2));
      break;
    case Situation::kCompleted:
    case Situation::kForgotten:
    case Situation::kTombstone:
      EXPECT_THAT(Complete(made.op, made.token), Succeeds());
      if (situation != Situation::kCompleted) Advance(absl::Hours(2));
      break;
    case Situation::kReleased:
      EXPECT_THAT(Release(made.op, made.token), Succeeds());
      break;
    case Situation::kPaused:
      EXPECT_THAT(Release(made.op, made.token, false, absl::Minutes(1)), Succeeds());
      break;
    default:
      break;
  }
  const absl::StatusOr<Record> record = Get(made.op);
  made.before = Describe(record);
  if (record.ok()) made.state = record->state;
  return made;
}

ResolveOp AdminTest::Releasing(const Case& made) {
  ResolveOp op;
  op.key = made.op.key;
  op.id = made.op.id;
  op.expected_attempt = 1;
  op.note = Note();
  return op;
}

ResolveOp AdminTest::Completing(const Case& made, const std::string& body) {
  ResolveOp op = Releasing(made);
  op.reply = ReplyWith(body);
  return op;
}

PurgeOp AdminTest::Purging(const Case& made) {
  PurgeOp op;
  op.name_space = made.op.key.name_space;
  op.key = made.op.key;
  op.note = Note();
  return op;
}

std::vector<AuditEntry> AdminTest::Audit(const std::string& name_space) {
  AuditOp op;
  op.name_space = name_space;
  return Audit(std::move(op));
}

std::vector<AuditEntry> AdminTest::Audit(AuditOp op) {
  std::vector<AuditEntry> entries;
  op.limit = 3;
  while (true) {
    const absl::StatusOr<AuditPage> page = store().ReadAudit(op);
    EXPECT_THAT(page, Succeeds());
    if (!page.ok()) return entries;
    EXPECT_LE(page->entries.size(), 3u);
    entries.insert(entries.end(), page->entries.begin(), page->entries.end());
    if (!page->next) return entries;
    op.after = *page->next;
  }
}

std::vector<Record> AdminTest::ListAll(ListOp op) {
  std::vector<Record> records;
  do {
    absl::StatusOr<RecordPage> page = store().List(op);
    EXPECT_THAT(page, Succeeds());
    if (!page.ok()) return records;
    EXPECT_LE(page->records.size(), static_cast<std::size_t>(op.limit));
    for (Record& record : page->records) records.push_back(std::move(record));
    op.after = page->next;
  } while (op.after);
  return records;
}

std::vector<std::string> AdminTest::KeysOf(const std::vector<Record>& records) {
  std::vector<std::string> keys;
  for (const Record& record : records) keys.push_back(record.key.key);
  return keys;
}

PurgeStep AdminTest::PurgeAll(PurgeOp op) {
  PurgeStep total;
  do {
    const absl::StatusOr<PurgeStep> step = store().Purge(op);
    EXPECT_THAT(step, Succeeds());
    if (!step.ok()) return total;
    total.purged.insert(total.purged.end(), step->purged.begin(), step->purged.end());
    total.refused += step->refused;
    total.busy += step->busy;
    op.after = step->next;
  } while (op.after);
  return total;
}

}  // namespace idempotency::internal
