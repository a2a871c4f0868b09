#include <string>
#include <vector>

#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

class UsageTest : public StoreTest {
 protected:
  static ReserveOp OnlyExisting(ReserveOp op) {
    op.only_existing = true;
    return op;
  }
  // A whole measurement, `limit` rows at a time.
  NamespaceUsage Measure(const std::string& name_space, int limit = 1000) {
    NamespaceUsage usage;
    UsageOp op;
    op.name_space = name_space;
    op.limit = limit;
    do {
      const absl::StatusOr<UsageStep> step = store().MeasureUsage(op);
      EXPECT_THAT(step, Succeeds());
      if (!step.ok()) return usage;
      EXPECT_LE(step->visited, limit);
      usage.records += step->usage.records;
      usage.reply_bytes += step->usage.reply_bytes;
      op.after = step->next;
    } while (op.after);
    return usage;
  }
};
IDEMPOTENCY_FOR_EVERY_STORE(UsageTest);

TEST_P(UsageTest, ANewKeyIsRefusedAndLeavesNoRecord) {
  const ReserveOp op = OpFor("new");
  EXPECT_THAT(Reserve(OnlyExisting(op)), FailsWith(Reason::kQuotaExceeded));
  EXPECT_THAT(Get(op), FailsWith(Reason::kRecordNotFound));
  EXPECT_EQ(MustReserve(op).attempt, 1u);
}

TEST_P(UsageTest, ARecordThatExistsIsAnsweredAsEver) {
  const ReserveOp op = OpFor("known");
  const Uuid token = MustReserve(op).token;
  Expect<InFlight>(Reserve(OnlyExisting(op)));
  EXPECT_THAT(Complete(op, token), Succeeds());
  Expect<Replay>(Reserve(OnlyExisting(op)));
  ReserveOp other = op;
  other.fingerprints = {Print(1, 'x')};
  Expect<Mismatch>(Reserve(OnlyExisting(other)));

  const ReserveOp released = OpFor("released");
  EXPECT_THAT(Release(released, MustReserve(released).token), Succeeds());
  EXPECT_EQ(Expect<Reserved>(Reserve(OnlyExisting(released))).attempt, 2u);

  ReserveOp unknown = OpFor("unknown");
  unknown.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  EXPECT_THAT(Release(unknown, MustReserve(unknown).token, /*outcome_unknown=*/true), Succeeds());
  Expect<OutcomeUnknown>(Reserve(OnlyExisting(unknown)));
}

TEST_P(UsageTest, AForgottenKeyIsANewOne) {
  ReserveOp op = OpFor("short");
  op.retention = absl::Minutes(1);
  MustReserve(op);
  Advance(absl::Minutes(2));
  EXPECT_THAT(Reserve(OnlyExisting(op)), FailsWith(Reason::kQuotaExceeded));
  EXPECT_TRUE(MustReserve(op).after_expiry);
}

// An old key stays old: the verdict is definite, a quota is not.
TEST_P(UsageTest, AnExpiredKeyStaysExpired) {
  const ReserveOp op = OpFor(KeyMadeAt(Now() - absl::Hours(30)));
  Expect<Expired>(Reserve(OnlyExisting(op)));
}

TEST_P(UsageTest, InABatchOnlyItsOwnOperationIsRefused) {
  const ReserveOp known = OpFor("known");
  MustReserve(known);
  const std::vector<ReserveOp> ops = {OpFor("a"), OnlyExisting(OpFor("b")), OnlyExisting(known),
                                      OpFor("c")};
  const auto answers = store().Reserve(ops);
  ASSERT_EQ(answers.size(), 4u);
  Expect<Reserved>(answers[0]);
  EXPECT_THAT(answers[1], FailsWith(Reason::kQuotaExceeded));
  Expect<InFlight>(answers[2]);
  Expect<Reserved>(answers[3]);
  EXPECT_THAT(Get(ops[1]), FailsWith(Reason::kRecordNotFound));
}

TEST_P(UsageTest, BesideCompletionsToo) {
  for (const bool alone : {true, false}) {
    const ReserveOp running = OpFor(alone ? "running-1" : "running-2");
    const CompleteOp completion{running.key, running.id, MustReserve(running).token,
                                ReplyWith("paid")};
    std::vector<ReserveOp> ops = {OnlyExisting(OpFor("b"))};
    if (!alone) ops.push_back(OpFor("a"));
    const SharedAnswers answers = store().CompleteAndReserve({&completion, 1}, ops);
    EXPECT_THAT(answers.completions.at(0), Succeeds());
    EXPECT_THAT(answers.verdicts.at(0), FailsWith(Reason::kQuotaExceeded));
    if (!alone) Expect<Reserved>(answers.verdicts.at(1));
  }
}

TEST_P(UsageTest, OfNamespacesWithTheSameBeginningOfTheirHashes) {
  const auto [one, other] = NamesOfOneHash();
  for (const std::string& name_space : {one, other, other}) {
    ReserveOp op = OpFor(KeyMadeAt(Now()));
    op.key.name_space = name_space;
    op.id = RecordIdFor(op.key);
    MustReserve(op);
  }
  EXPECT_EQ(Measure(one).records, 1);
  EXPECT_EQ(Measure(other).records, 2);
}

// At least what sealing adds to a small reply (docs/sealing.md).
constexpr std::int64_t kSealedReplyBytes = 128;

TEST_P(UsageTest, LiveRecordsAndTheirRepliesAreMeasured) {
  const std::string name_space = OpFor("x").key.name_space;
  EXPECT_EQ(Measure(name_space).records, 0);
  std::int64_t bytes = 0;
  for (int i = 0; i < 7; ++i) {
    ReserveOp op = OpFor("key-" + std::to_string(i));
    op.key.scope = "scope-" + std::to_string(i % 3);
    op.id = RecordIdFor(op.key);
    const Uuid token = MustReserve(op).token;
    if (i >= 5) continue;
    const std::string body(1000 * (i + 1), 'r');
    EXPECT_THAT(Complete(op, token, body), Succeeds());
    bytes += static_cast<std::int64_t>(ReplyWith(body).bytes.size());
  }
  ReserveOp other = OpFor("other");
  other.key.name_space = name_space + "-2";
  other.id = RecordIdFor(other.key);
  MustReserve(other);
  ReserveOp brief = OpFor("brief");
  brief.retention = absl::Minutes(1);
  MustReserve(brief);
  ReserveOp open = OpFor("open");
  open.retention = absl::Minutes(1);
  open.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  MustReserve(open);
  EXPECT_EQ(Measure(name_space).records, 9);
  Advance(absl::Minutes(2));
  for (const int limit : {1, 2, 3, 1000}) {
    const NamespaceUsage usage = Measure(name_space, limit);
    EXPECT_EQ(usage.records, 8) << "without the forgotten one, with the open one";
    // The bytes that sealing adds to a reply count as well.
    const bool sealed = GetParam().keys_fingerprints_because.has_value();
    EXPECT_GE(usage.reply_bytes, bytes) << limit;
    EXPECT_LE(usage.reply_bytes, bytes + (sealed ? 5 * kSealedReplyBytes : 0)) << limit;
  }
}

}  // namespace
}  // namespace idempotency::internal
