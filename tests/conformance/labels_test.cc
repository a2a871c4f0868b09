// Labels come back with every grant and every replay. They are those of the first reservation, for
// every later caller.
#include <map>
#include <string>
#include <vector>

#include "grpc_idempotency/limits.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

using Labels = std::map<std::string, std::string>;

constexpr absl::Duration kLease = absl::Seconds(30);

class LabelsTest : public StoreTest {
 protected:
  // The first reservation's caller, with a request token of its own.
  static ReserveOp First(LeaseExpiry policy = LeaseExpiry::kTakeOver) {
    ReserveOp op = OpFor("labelled");
    op.request_token = Uuid::Random();
    op.on_lease_expiry = policy;
    op.labels = kFirst;
    return op;
  }
  // A later caller of the same record, with labels of its own.
  static ReserveOp Later(const ReserveOp& first) {
    ReserveOp op = first;
    op.request_token = Uuid::Random();
    op.recover = true;
    op.labels = {{"build", "42"}, {"late", "yes"}};
    return op;
  }

  static inline const Labels kFirst = {
      {"build", "41"}, {"empty", ""}, {"json", "'\"\\{},NULL"}, {"utf8", "Grüße/日本"}};
};
IDEMPOTENCY_FOR_EVERY_STORE(LabelsTest);

TEST_P(LabelsTest, WithTheFirstGrant) { EXPECT_EQ(MustReserve(First()).labels, kFirst); }

TEST_P(LabelsTest, WithoutLabelsThereAreNone) {
  ReserveOp op = First();
  op.labels.clear();
  EXPECT_EQ(MustReserve(op).labels, Labels());
  EXPECT_EQ(MustReserve(op).labels, Labels()) << "nor with its repeat";
  Advance(kLease);
  const Reserved second = MustReserve(Later(op));
  EXPECT_EQ(second.labels, Labels()) << "nor can a later caller add any";
  ASSERT_THAT(Complete(op, second.token), Succeeds());
  EXPECT_EQ(Expect<Replay>(Reserve(Later(op))).labels, Labels());
}

TEST_P(LabelsTest, WithARepeatedGrant) {
  ReserveOp op = First();
  MustReserve(op);
  op.labels = {{"build", "42"}};
  EXPECT_EQ(MustReserve(op).labels, kFirst) << "while the lease is live";
  Advance(kLease);
  const Reserved renewed = MustReserve(op);
  EXPECT_TRUE(renewed.repeated);
  EXPECT_EQ(renewed.labels, kFirst) << "and when it is renewed";
}

TEST_P(LabelsTest, WithATakeOver) {
  const ReserveOp op = First();
  MustReserve(op);
  Advance(kLease);
  const Reserved second = MustReserve(Later(op));
  EXPECT_TRUE(second.took_over);
  EXPECT_EQ(second.labels, kFirst);
}

TEST_P(LabelsTest, WithARecoveryGrantAndItsRepeat) {
  const ReserveOp op = First(LeaseExpiry::kRequireRecovery);
  MustReserve(op);
  Advance(kLease);
  const ReserveOp later = Later(op);
  const Reserved second = MustReserve(later);
  EXPECT_TRUE(second.recovering);
  EXPECT_EQ(second.labels, kFirst);
  const Reserved again = MustReserve(later);
  EXPECT_TRUE(again.recovering);
  EXPECT_EQ(again.labels, kFirst);
}

TEST_P(LabelsTest, WithARecoveryGrantOfAnUnknownRecord) {
  const ReserveOp op = First(LeaseExpiry::kRequireRecovery);
  ASSERT_THAT(Release(op, MustReserve(op).token, /*outcome_unknown=*/true), Succeeds());
  EXPECT_EQ(MustReserve(Later(op)).labels, kFirst);
}

TEST_P(LabelsTest, AfterARelease) {
  const ReserveOp op = First();
  ASSERT_THAT(Release(op, MustReserve(op).token), Succeeds());
  EXPECT_EQ(MustReserve(Later(op)).labels, kFirst);
}

TEST_P(LabelsTest, WithAReplay) {
  const ReserveOp op = First();
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  EXPECT_EQ(Expect<Replay>(Reserve(op)).labels, kFirst);
  EXPECT_EQ(Expect<Replay>(Reserve(Later(op))).labels, kFirst);
}

TEST_P(LabelsTest, TheyEndWithTheirRecord) {
  const ReserveOp op = First();
  ASSERT_THAT(Complete(op, MustReserve(op).token), Succeeds());
  Advance(op.retention);
  const ReserveOp later = Later(op);
  const Reserved afresh = MustReserve(later);
  EXPECT_TRUE(afresh.after_expiry);
  EXPECT_EQ(afresh.labels, later.labels);
  EXPECT_EQ(MustReserve(later).labels, later.labels);
}

TEST_P(LabelsTest, AsManyAndAsLongAsTheyMayBe) {
  ReserveOp op = First();
  op.labels.clear();
  for (std::size_t i = 0; i < limits::kMaxLabels; ++i) {
    std::string name(limits::kMaxLabelKeyBytes, 'n');
    name[0] = static_cast<char>('a' + static_cast<int>(i));
    op.labels[name] = std::string(limits::kMaxLabelValueBytes, '"');
  }
  EXPECT_EQ(MustReserve(op).labels, op.labels);
  EXPECT_EQ(MustReserve(op).labels, op.labels);
}

TEST_P(LabelsTest, WithControlCharacters) {
  ReserveOp op = First();
  op.labels = {{"tab\t", "line 1\nline 2\r\x01\x7f"}};
  if (GetParam().refuses_controls_because) {
    EXPECT_THAT(Reserve(op), FailsWith(Reason::kRequestInvalid));
    return;
  }
  EXPECT_EQ(MustReserve(op).labels, op.labels);
  EXPECT_EQ(MustReserve(op).labels, op.labels) << "and with its repeat";
}

TEST_P(LabelsTest, InABatchEachHasItsOwn) {
  std::vector<ReserveOp> ops;
  for (int i = 0; i < 6; ++i) {
    ops.push_back(OpFor(std::string("batch-") + static_cast<char>('a' + i)));
    if (i % 2 == 0) ops.back().labels = {{"number", std::string(1, static_cast<char>('0' + i))}};
  }
  for (int round = 1; round <= 2; ++round) {
    const auto answers = store().Reserve(ops);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      EXPECT_EQ(Expect<Reserved>(answers[i]).labels, ops[i].labels) << "round " << round;
    }
    Advance(kLease);
  }
}

}  // namespace
}  // namespace idempotency::internal
