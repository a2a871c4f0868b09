#include "server/tenants/tenants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "server/tenants/recent_usage.h"

namespace idempotency::internal {
namespace {

class CountedQuotas final : public Observer {
 public:
  void TenantAdmitted(absl::string_view name_space) override {
    ++admitted[std::string(name_space)];
  }
  void QuotaExceeded(absl::string_view name_space, QuotaLimit limit) override {
    ++exceeded[{std::string(name_space), limit}];
  }

  void UsageMeasured(absl::string_view name_space, const NamespaceUsage& usage) override {
    measured[std::string(name_space)] = usage.records;
  }

  std::map<std::string, std::int64_t> measured;
  std::map<std::string, int> admitted;
  std::map<std::pair<std::string, QuotaLimit>, int> exceeded;
};

ReserveOp OpIn(const std::string& name_space, const std::string& key = "order-1") {
  ReserveOp op;
  op.key = {name_space, "scope", "operation", key};
  return op;
}

constexpr Tenants::StatedTerms kAll{true, true};
constexpr Tenants::StatedTerms kNone{};

class TenantsTest : public ::testing::Test {
 protected:
  void Configure(const NamespaceSettings& settings) { tenants_.Configure({{"n", settings}}); }
  absl::StatusOr<Tenants::Place> Reserve(absl::Duration max_wait = absl::ZeroDuration()) {
    ReserveOp op = OpIn("n");
    return tenants_.AdmitReservation(op, kAll, max_wait);
  }
  static std::optional<absl::Duration> DelayOf(const absl::Status& status) {
    EXPECT_EQ(ReasonOf(status), Reason::kQuotaExceeded) << status;
    return DetailsOf(status).retry_delay;
  }

  ManualClock clock_;
  CountedQuotas observer_;
  Tenants tenants_{observer_, clock_};
};

TEST_F(TenantsTest, WithoutSettingsEverythingIsAdmittedWithTheDefaults) {
  NamespaceSettings one;
  one.max_in_flight = 1;
  for (const bool configured : {false, true}) {
    if (configured) Configure(one);
    std::vector<Tenants::Place> places;
    for (int i = 0; i < 100; ++i) {
      ReserveOp op = OpIn("other");
      absl::Duration wait = absl::Seconds(1);
      auto place = tenants_.AdmitReservation(op, kNone, wait);
      ASSERT_TRUE(place.ok());
      places.push_back(*std::move(place));
      EXPECT_EQ(op.retention, limits::kDefaultRetention);
      EXPECT_EQ(op.window, limits::kDefaultWindow);
      EXPECT_EQ(wait, absl::Seconds(1));
      ASSERT_TRUE(tenants_.AdmitRead("other").ok());
    }
  }
  EXPECT_TRUE(observer_.admitted.empty()) << "names that callers choose are no labels";
  EXPECT_TRUE(observer_.exceeded.empty());
}

TEST_F(TenantsTest, OperationsInFlightAreBounded) {
  NamespaceSettings settings;
  settings.max_in_flight = 2;
  Configure(settings);
  auto first = Reserve();
  auto second = tenants_.AdmitRead("n");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_GT(DelayOf(Reserve().status()), absl::ZeroDuration());
  EXPECT_GT(DelayOf(tenants_.AdmitRead("n").status()), absl::ZeroDuration());
  first->Release();
  first->Release();
  auto third = Reserve();
  EXPECT_TRUE(third.ok());
  EXPECT_FALSE(Reserve().ok()) << "a place is given back once";
  { const Tenants::Place moved = *std::move(third); }
  EXPECT_TRUE(Reserve().ok());
  EXPECT_EQ((observer_.exceeded[{"n", QuotaLimit::kInFlight}]), 3);
  EXPECT_EQ(observer_.admitted["n"], 4);
}

// A namespace that has no place has refused nobody if another one has.
TEST_F(TenantsTest, AReadForOneOfSeveralNamespacesIsRefusedOnce) {
  NamespaceSettings settings;
  settings.max_in_flight = 1;
  tenants_.Configure({{"a", settings}, {"b", settings}});
  const auto first = tenants_.AdmitReadOfOne({"a", "b"});
  const auto second = tenants_.AdmitReadOfOne({"a", "b"});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(observer_.exceeded.empty());
  EXPECT_GT(DelayOf(tenants_.AdmitReadOfOne({"a", "b"}).status()), absl::ZeroDuration());
  EXPECT_EQ(observer_.exceeded.size(), 1U);
  EXPECT_EQ((observer_.exceeded[{"b", QuotaLimit::kInFlight}]), 1);
}

// The delay of a refusal is enough, and no less is.
TEST_F(TenantsTest, TheRateIsKept) {
  NamespaceSettings settings;
  settings.max_rate = 10;
  settings.burst = 3;
  Configure(settings);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Reserve().ok()) << i;
  const auto delay = DelayOf(Reserve().status());
  EXPECT_EQ(delay, absl::Milliseconds(100));
  clock_.Advance(*delay - absl::Microseconds(1));
  EXPECT_FALSE(Reserve().ok());
  clock_.Advance(absl::Microseconds(1));
  EXPECT_TRUE(Reserve().ok());
  EXPECT_FALSE(Reserve().ok());
  int admitted = 0;
  for (int i = 0; i < 10'000; ++i) {
    clock_.Advance(absl::Milliseconds(1));
    admitted += Reserve().ok() ? 1 : 0;
  }
  EXPECT_EQ(admitted, 100);
  // A pause saves up a burst, not more.
  clock_.Advance(absl::Hours(1));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Reserve().ok()) << i;
  EXPECT_FALSE(Reserve().ok());
  EXPECT_GT((observer_.exceeded[{"n", QuotaLimit::kRate}]), 0);
}

TEST_F(TenantsTest, ARefusalForTheRateTakesNoPlace) {
  NamespaceSettings settings;
  settings.max_rate = 1;
  settings.max_in_flight = 2;
  Configure(settings);
  EXPECT_TRUE(Reserve().ok());
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(Reserve().ok());
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(Reserve().ok());
}

TEST_F(TenantsTest, TooManyWaitingCallersDoNotWait) {
  NamespaceSettings settings;
  settings.max_waiting = 1;
  Configure(settings);
  const auto wait_of = [this](std::vector<Tenants::Place>& places) {
    ReserveOp op = OpIn("n");
    absl::Duration wait = absl::Seconds(5);
    auto place = tenants_.AdmitReservation(op, kAll, wait);
    EXPECT_TRUE(place.ok());
    places.push_back(*std::move(place));
    return wait;
  };
  std::vector<Tenants::Place> places;
  EXPECT_EQ(wait_of(places), absl::Seconds(5));
  EXPECT_EQ(wait_of(places), absl::ZeroDuration());
  places.pop_back();
  EXPECT_EQ(wait_of(places), absl::ZeroDuration()) << "the first one still waits";
  places.clear();
  EXPECT_EQ(wait_of(places), absl::Seconds(5));
  EXPECT_EQ((observer_.exceeded[{"n", QuotaLimit::kWaiting}]), 2);
}

TEST_F(TenantsTest, RetentionHasBoundsAndADefault) {
  NamespaceSettings settings;
  settings.min_retention = absl::Minutes(1);
  settings.max_retention = absl::Hours(1);
  settings.default_retention = absl::Minutes(10);
  Configure(settings);
  const auto admit = [this](std::optional<absl::Duration> retention, ReserveOp& op,
                            bool stated_lease = true) {
    if (retention.has_value()) op.retention = *retention;
    absl::Duration wait;
    auto place = tenants_.AdmitReservation(op, {stated_lease, retention.has_value()}, wait);
    EXPECT_TRUE(place.ok()) << place.status();
    EXPECT_EQ(op.only_existing, !place->out_of_bounds().ok());
    return place->out_of_bounds();
  };
  ReserveOp op = OpIn("n");
  EXPECT_TRUE(admit(std::nullopt, op).ok());
  EXPECT_EQ(op.retention, absl::Minutes(10));
  for (const absl::Duration within : {absl::Minutes(1), absl::Hours(1)}) {
    EXPECT_TRUE(admit(within, op).ok());
    EXPECT_EQ(op.retention, within);
  }
  // Existing records are answered, and recovered within the bounds.
  for (const auto& [outside, nearest] :
       {std::pair{absl::Minutes(61), absl::Hours(1)}, {absl::Seconds(59), absl::Minutes(1)}}) {
    op.reply_retention = outside;
    EXPECT_EQ(ReasonOf(admit(outside, op)), Reason::kRequestInvalid);
    EXPECT_EQ(op.retention, nearest);
    EXPECT_EQ(op.reply_retention, std::min(outside, nearest));
  }
  // The record outlives its lease, and the reply's content does not outlive the record.
  op.lease = absl::Minutes(20);
  op.reply_retention = absl::Hours(20);
  EXPECT_TRUE(admit(std::nullopt, op).ok());
  EXPECT_EQ(op.retention, absl::Minutes(20));
  EXPECT_EQ(op.reply_retention, absl::Minutes(20));
  // A lease that nobody stated gives way.
  settings.default_retention = settings.min_retention = absl::Seconds(5);
  settings.max_retention = absl::Seconds(10);
  Configure(settings);
  ReserveOp plain = OpIn("n");
  EXPECT_TRUE(admit(std::nullopt, plain, /*stated_lease=*/false).ok());
  EXPECT_EQ(plain.retention, absl::Seconds(5));
  EXPECT_EQ(plain.lease, absl::Seconds(5));
  plain.lease = absl::Seconds(20);
  EXPECT_EQ(ReasonOf(admit(std::nullopt, plain)), Reason::kRequestInvalid);
}

// The alert of limits fires.
TEST_F(TenantsTest, ARefusalForTheRetentionIsCounted) {
  NamespaceSettings settings;
  settings.max_retention = absl::Hours(1);
  Configure(settings);
  ReserveOp op = OpIn("n");
  op.retention = absl::Hours(2);
  absl::Duration wait;
  const auto place = tenants_.AdmitReservation(op, kAll, wait);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ((observer_.exceeded[{"n", QuotaLimit::kRetention}]), 0) << "a record may exist";
  const absl::Status refused = tenants_.RefuseRetention("n", *place);
  EXPECT_EQ(ReasonOf(refused), Reason::kRequestInvalid) << refused;
  EXPECT_EQ((observer_.exceeded[{"n", QuotaLimit::kRetention}]), 1);
}

TEST_F(TenantsTest, KeysFromBeforeARestoreHaveNoWindow) {
  NamespaceSettings settings;
  settings.window = absl::Hours(48);
  // The time of a key is in milliseconds.
  const std::string key = "018bcfe5-6800-7000-8000-00c04fd430c8";
  const absl::Time made = *KeyTime(OpIn("n", key).key);
  for (const auto& [not_before, window] :
       std::vector<std::pair<std::optional<absl::Time>, absl::Duration>>{
           {std::nullopt, absl::Hours(48)},
           {made, absl::Hours(48)},
           {made + absl::Milliseconds(1), kNoWindow}}) {
    settings.not_before = not_before;
    Configure(settings);
    ReserveOp op = OpIn("n", key);
    absl::Duration wait;
    ASSERT_TRUE(tenants_.AdmitReservation(op, kAll, wait).ok());
    EXPECT_EQ(op.window, window);
    ReserveOp opaque = OpIn("n");
    ASSERT_TRUE(tenants_.AdmitReservation(opaque, kAll, wait).ok());
    EXPECT_EQ(opaque.window, absl::Hours(48));
  }
}

TEST_F(TenantsTest, NotBeforeOfEveryNamespaceAppliesToThoseThatAreNotListedToo) {
  const std::string key = "018bcfe5-6800-7000-8000-00c04fd430c8";
  const absl::Time made = *KeyTime(OpIn("n", key).key);
  const absl::Time later = made + absl::Milliseconds(1);
  const auto is_expired = [&](const std::string& name_space, std::optional<absl::Time> of_all,
                              std::optional<absl::Time> own) {
    NamespaceSettings settings;
    settings.not_before = own;
    tenants_.Configure({{"listed", settings}}, of_all);
    ReserveOp op = OpIn(name_space, key);
    absl::Duration wait;
    EXPECT_TRUE(tenants_.AdmitReservation(op, kAll, wait).ok());
    return op.window == kNoWindow;
  };
  for (const std::string name_space : {"listed", "other"}) {
    EXPECT_TRUE(is_expired(name_space, later, std::nullopt)) << name_space;
    EXPECT_FALSE(is_expired(name_space, made, std::nullopt)) << name_space;
    EXPECT_FALSE(is_expired(name_space, std::nullopt, std::nullopt)) << "it was removed";
    EXPECT_TRUE(is_expired(name_space, later, made)) << "the later one applies";
  }
  EXPECT_TRUE(is_expired("listed", made, later));
  EXPECT_FALSE(is_expired("other", made, later));
  // Without a list of namespaces.
  tenants_.Configure({}, later);
  ReserveOp op = OpIn("other", key);
  absl::Duration wait;
  ASSERT_TRUE(tenants_.AdmitReservation(op, kAll, wait).ok());
  EXPECT_EQ(op.window, kNoWindow);
  ReserveOp opaque = OpIn("other");
  ASSERT_TRUE(tenants_.AdmitReservation(opaque, kAll, wait).ok());
  EXPECT_EQ(opaque.window, NamespaceSettings().window);
}

TEST_F(TenantsTest, ReadingTheFileAgainChangesNothingThatIsCounted) {
  NamespaceSettings settings;
  settings.max_in_flight = 1;
  settings.max_rate = 1;
  Configure(settings);
  auto place = Reserve();
  ASSERT_TRUE(place.ok());
  Configure(settings);
  EXPECT_FALSE(Reserve().ok());
  place->Release();
  Configure(settings);
  EXPECT_EQ(DelayOf(Reserve().status()), absl::Seconds(1)) << "no new burst";
  settings.max_rate.reset();
  Configure(settings);
  auto next = Reserve();
  EXPECT_TRUE(next.ok());
  // A namespace that is removed while an operation is in progress.
  tenants_.Configure({});
  next->Release();
  EXPECT_TRUE(Reserve().ok());
}

// What is only_existing, of a reservation now.
class TenantQuotaTest : public TenantsTest {
 protected:
  std::optional<QuotaLimit> Reached() {
    ReserveOp op = OpIn("n");
    absl::Duration wait;
    const auto place = tenants_.AdmitReservation(op, kAll, wait);
    EXPECT_TRUE(place.ok()) << place.status();
    EXPECT_EQ(op.only_existing, place->reached().has_value());
    return place->reached();
  }
  void Measure(const NamespaceUsage& usage) {
    tenants_.BeginMeasurement("n");
    tenants_.EndMeasurement("n", usage);
  }
  void AddRecord() { Reserve().value().CountRecord(); }
};

TEST_F(TenantQuotaTest, IsTheMeasurementAndWhatWasAddedSince) {
  NamespaceSettings settings;
  settings.max_records = 10;
  settings.max_reply_bytes = 1000;
  Configure(settings);
  for (int i = 0; i < 20; ++i) AddRecord();
  EXPECT_EQ(Reached(), std::nullopt) << "nothing was measured yet";
  Measure({8, 900});
  EXPECT_EQ(observer_.measured["n"], 8);
  EXPECT_EQ(Reached(), std::nullopt) << "what was added before is in the measurement";
  AddRecord();
  EXPECT_EQ(Reached(), std::nullopt);
  AddRecord();
  EXPECT_EQ(Reached(), QuotaLimit::kRecords);
  Measure({9, 999});
  EXPECT_EQ(Reached(), std::nullopt);
  tenants_.CountReply("n", 1);
  EXPECT_EQ(Reached(), QuotaLimit::kReplyBytes);
  EXPECT_EQ(DelayOf(tenants_.RefuseRecord("n", QuotaLimit::kReplyBytes)), absl::Seconds(10));
  EXPECT_EQ((observer_.exceeded[{"n", QuotaLimit::kReplyBytes}]), 1);
  Measure({0, 0});
  EXPECT_EQ(Reached(), std::nullopt);
  settings.max_records = 0;
  Configure(settings);
  EXPECT_EQ(Reached(), QuotaLimit::kRecords) << "a new quota applies to the last measurement";
}

// A record may have been made behind the place that a measurement in progress has read.
TEST_F(TenantQuotaTest, WhatIsAddedDuringAMeasurementCountsAfterIt) {
  NamespaceSettings settings;
  settings.max_records = 10;
  Configure(settings);
  tenants_.BeginMeasurement("n");
  AddRecord();
  tenants_.EndMeasurement("n", {9, 0});
  EXPECT_EQ(Reached(), QuotaLimit::kRecords);
  Measure({9, 0});
  EXPECT_EQ(Reached(), std::nullopt);
}

// The next measurement may end long after the records.
TEST_F(TenantQuotaTest, WhatWasAddedCountsUntilTheEndOfTheRecords) {
  NamespaceSettings settings;
  settings.max_records = 10;
  settings.max_reply_bytes = 1000;
  Configure(settings);
  Measure({9, 900});
  const auto add = [this](absl::Duration retention, const std::string& key,
                          LeaseExpiry on_lease_expiry = LeaseExpiry::kTakeOver) {
    ReserveOp op = OpIn("n", key);
    op.retention = retention;
    op.on_lease_expiry = on_lease_expiry;
    absl::Duration wait;
    auto place = tenants_.AdmitReservation(op, kAll, wait);
    ASSERT_TRUE(place.ok()) << place.status();
    place->CountRecord();
  };
  add(absl::Hours(1), "order-1");
  EXPECT_EQ(Reached(), QuotaLimit::kRecords);
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(Reached(), QuotaLimit::kRecords);
  clock_.Advance(absl::Minutes(4));
  EXPECT_EQ(Reached(), std::nullopt);
  // As long as the records may live.
  tenants_.CountReply("n", 100);
  EXPECT_EQ(Reached(), QuotaLimit::kReplyBytes);
  clock_.Advance(absl::Hours(1) + absl::Minutes(4));
  EXPECT_EQ(Reached(), std::nullopt);
  // The record of a UUIDv7 key lives for the window at least.
  add(absl::Hours(1), "018bcfe5-6800-7000-8000-00c04fd430c8");
  clock_.Advance(absl::Hours(24));
  EXPECT_EQ(Reached(), QuotaLimit::kRecords);
  clock_.Advance(absl::Hours(2));
  EXPECT_EQ(Reached(), std::nullopt);
  // It may have been made ahead of the clock: 20 h here.
  add(absl::Hours(1), Uuid::TimeOrdered(clock_.Now() + absl::Hours(20)).ToString());
  clock_.Advance(absl::Hours(43));
  EXPECT_EQ(Reached(), QuotaLimit::kRecords);
  clock_.Advance(absl::Hours(4));
  EXPECT_EQ(Reached(), std::nullopt);
  // Its outcome may stay unknown.
  add(absl::Seconds(1), "order-0", LeaseExpiry::kRequireRecovery);
  clock_.Advance(absl::Hours(24 * 30));
  EXPECT_EQ(Reached(), QuotaLimit::kRecords);
  Measure({9, 0});
  EXPECT_EQ(Reached(), std::nullopt);
  // Also what a measurement that takes so long has not counted.
  tenants_.BeginMeasurement("n");
  add(absl::Hours(1), "order-2");
  clock_.Advance(absl::Hours(2));
  add(absl::Hours(1), "order-3");
  tenants_.EndMeasurement("n", {8, 0});
  EXPECT_EQ(Reached(), std::nullopt);
  add(absl::Hours(1), "order-4");
  EXPECT_EQ(Reached(), QuotaLimit::kRecords);
}

TEST_F(TenantQuotaTest, AReachedQuotaIsNamedUntilTheNextMeasurement) {
  NamespaceSettings settings;
  settings.max_records = 10;
  Configure(settings);
  Measure({10, 0});
  EXPECT_FALSE(tenants_.Quotas().at(0).reached);
  EXPECT_EQ(Reached(), QuotaLimit::kRecords);
  EXPECT_TRUE(tenants_.Quotas().at(0).reached);
  Measure({9, 0});
  EXPECT_FALSE(tenants_.Quotas().at(0).reached);
}

TEST_F(TenantQuotaTest, AQuotaThatComesBackIsMeasuredFirst) {
  NamespaceSettings settings;
  settings.max_records = 10;
  Configure(settings);
  Measure({10, 0});
  Configure({});
  Configure(settings);
  EXPECT_EQ(Reached(), std::nullopt) << "records made meanwhile were not counted";
}

TEST(RecentUsageTest, SumsWhatHasNotEnded) {
  RecentUsage usage;
  RecentUsage::Time now{std::chrono::hours(1)};
  const auto records = [&](std::chrono::seconds later) { return usage.At(now + later).records; };
  for (int i = 0; i < 100; ++i) {
    usage.Add({1, 10}, now + std::chrono::seconds(i), absl::Seconds(100));
  }
  usage.Add({1000, 0}, now + std::chrono::seconds(99), absl::Hours(9600));
  EXPECT_EQ(records(std::chrono::seconds(100)), 1100);
  // Up to a sixteenth late.
  EXPECT_GE(records(std::chrono::seconds(150)), 1049);
  EXPECT_LE(records(std::chrono::seconds(150)), 1057);
  EXPECT_EQ(records(std::chrono::seconds(207)), 1000);
  EXPECT_EQ(records(std::chrono::hours(9600)), 1000);
  EXPECT_EQ(records(std::chrono::hours(9600 + 601)), 0);
  EXPECT_EQ(usage.At(now + std::chrono::hours(20000)).reply_bytes, 0);
}

TEST_F(TenantQuotaTest, OnlyNamespacesWithAQuotaAreMeasured) {
  NamespaceSettings limited;
  limited.max_reply_bytes = 7;
  tenants_.Configure({{"plain", {}}, {"n", limited}});
  const std::vector<Tenants::Quota> quotas = tenants_.Quotas();
  ASSERT_EQ(quotas.size(), 1u);
  EXPECT_EQ(quotas[0].name_space, "n");
  EXPECT_EQ(quotas[0].most.reply_bytes, 7);
  EXPECT_GT(quotas[0].most.records, std::int64_t{1} << 60);
  // A namespace that is removed meanwhile.
  tenants_.Configure({});
  Measure({1, 1});
  tenants_.CountReply("n", 1);
}

}  // namespace
}  // namespace idempotency::internal
