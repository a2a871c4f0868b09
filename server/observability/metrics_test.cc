#include "server/observability/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "grpc_idempotency/errors.h"
#include "server/observability/version.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::string TypeName(prometheus::MetricType type) {
  switch (type) {
    case prometheus::MetricType::Counter:
      return "counter";
    case prometheus::MetricType::Gauge:
      return "gauge";
    case prometheus::MetricType::Histogram:
      return "histogram";
    case prometheus::MetricType::Summary:
    case prometheus::MetricType::Untyped:
      break;
  }
  return "?";
}

// One line per time series, sorted: name, type, labels.
std::string Describe(const Metrics& metrics) {
  std::set<std::string> lines;
  for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
    EXPECT_NE(family.help, "") << family.name;
    for (const prometheus::ClientMetric& metric : family.metric) {
      std::string line = absl::StrCat(family.name, " ", TypeName(family.type));
      for (const auto& label : metric.label) {
        absl::StrAppend(&line, " ", label.name, "=", label.value);
      }
      lines.insert(absl::StrReplaceAll(line, {{std::string(Version()), "X.Y.Z"}}));
    }
  }
  return absl::StrJoin(lines, "\n") + "\n";
}

// The sample of the one series that has these labels.
double ValueOf(const Metrics& metrics, const std::string& name,
               const std::vector<std::string>& label_values = {}) {
  for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      std::vector<std::string> values;
      for (const auto& label : metric.label) values.push_back(label.value);
      if (values != label_values) continue;
      if (family.type == prometheus::MetricType::Counter) return metric.counter.value;
      if (family.type == prometheus::MetricType::Gauge) return metric.gauge.value;
      return static_cast<double>(metric.histogram.sample_count);
    }
  }
  ADD_FAILURE() << "no series of " << name;
  return -1;
}

// Those that not every process has.
void AddOptionalSeries(Metrics& metrics) {
  // These series exist for the namespaces of the configuration file.
  metrics.TenantAdmitted("payments");
  for (const QuotaLimit limit : kAllQuotaLimits) metrics.QuotaExceeded("payments", limit);
  metrics.UsageMeasured("payments", {});
  // And these with TLS.
  for (const CertificateUse use : kAllCertificateUses) metrics.CertificateLoaded(use, {});
  // And this one with a key ring.
  metrics.KeyRingUsed({7});
}

TEST(MetricsTest, NamesTypesAndLabelsAreAContract) {
  Metrics metrics;
  AddOptionalSeries(metrics);
  std::ifstream file(IDEMPOTENCY_TESTDATA "/metrics.golden");
  const std::string golden{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(Describe(metrics), golden)
      << "Dashboards and alerts hang on these names. If the change is meant, write what stands "
         "above into server/testdata/metrics.golden and say so in the changelog.";
}

// The values of a label, where they are a fixed set.
std::string DescribeLabels(const prometheus::MetricFamily& family) {
  std::map<std::string, std::set<std::string>> values;
  for (const prometheus::ClientMetric& metric : family.metric) {
    for (const auto& label : metric.label) values[label.name].insert(label.value);
  }
  std::vector<std::string> labels;
  for (const auto& [name, its_values] : values) {
    const bool open =
        name == "namespace" || name == "version" || name == "code" || name == "key_id";
    labels.push_back(absl::StrCat("`", name, "`", open ? "" : ": ",
                                  open ? "" : absl::StrJoin(its_values, ", ")));
  }
  return absl::StrJoin(labels, "; ");
}

// A row for each family, sorted by name.
std::string DescribeInMarkdown(const Metrics& metrics) {
  std::set<std::string> rows;
  for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
    rows.insert(absl::StrCat("| `", family.name, "` | ", TypeName(family.type), " | ",
                             DescribeLabels(family), " | ", family.help, " |"));
  }
  return absl::StrJoin(rows, "\n") + "\n";
}

TEST(MetricsTest, TheReferenceHasEachOfThem) {
  Metrics metrics;
  AddOptionalSeries(metrics);
  std::ifstream file(IDEMPOTENCY_METRICS_PAGE);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_THAT(page, HasSubstr(DescribeInMarkdown(metrics)))
      << "Write these rows into the table of docs/metrics.md.";
}

TEST(MetricsTest, CountsTheService) {
  Metrics metrics;
  metrics.RpcFinished(OperationKind::kReserve, absl::OkStatus(), absl::Milliseconds(3));
  metrics.RpcFinished(OperationKind::kGet, absl::NotFoundError(""), absl::Milliseconds(3));
  metrics.VerdictGiven(Reserved{});
  metrics.VerdictGiven(Mismatch{});
  metrics.VerdictGiven(Mismatch{});
  metrics.VerdictGiven(Expired{});
  metrics.MismatchSeen("payments", "/p.P/Charge", RecordId{});
  metrics.WaitersChanged(7);
  metrics.MemoryHeldChanged(4096);
  const std::string rpc = "idempotency_rpc_duration_seconds";
  EXPECT_EQ(ValueOf(metrics, rpc, {"OK", "Reserve"}), 1);
  EXPECT_EQ(ValueOf(metrics, rpc, {"NOT_FOUND", "Get"}), 1);
  EXPECT_EQ(ValueOf(metrics, rpc, {"OK", "Get"}), 0);
  EXPECT_EQ(ValueOf(metrics, "idempotency_verdicts_total", {"reserved"}), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_verdicts_total", {"mismatch"}), 2);
  EXPECT_EQ(ValueOf(metrics, "idempotency_verdicts_total", {"expired"}), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_verdicts_total", {"replay"}), 0);
  EXPECT_EQ(ValueOf(metrics, "idempotency_mismatches_total"), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_waiters"), 7);
  EXPECT_EQ(ValueOf(metrics, "idempotency_held_bytes"), 4096);
}

TEST(MetricsTest, CountsSessions) {
  Metrics metrics;
  metrics.SessionsChanged(3);
  metrics.FrameReceived(32);
  metrics.FrameReceived(1);
  metrics.FrameSent();
  EXPECT_EQ(ValueOf(metrics, "idempotency_sessions"), 3);
  EXPECT_EQ(ValueOf(metrics, "idempotency_session_operations_total"), 33);
  EXPECT_EQ(ValueOf(metrics, "idempotency_session_frames_total", {"received"}), 2);
  EXPECT_EQ(ValueOf(metrics, "idempotency_session_frames_total", {"sent"}), 1);
}

TEST(MetricsTest, CountsTheBatcher) {
  Metrics metrics;
  metrics.BatchDone(OperationKind::kComplete, 17, absl::Milliseconds(2));
  metrics.QueueDepthChanged(12);
  metrics.OperationShed(OperationKind::kReserve, ShedReason::kQueue);
  metrics.OperationShed(OperationKind::kReserve, ShedReason::kReplies);
  metrics.OperationShed(OperationKind::kReserve, ShedReason::kReplies);
  metrics.OperationOverdue(OperationKind::kExtend);
  metrics.StoreFailed(OperationKind::kGet, RecordId{}, MakeError(Reason::kRecordDamaged, ""));
  metrics.StoreFailed(OperationKind::kGet, RecordId{}, absl::AbortedError(""));
  metrics.ReservationLost(OperationKind::kComplete);
  metrics.LeaseOverrun();
  metrics.TookOver();
  metrics.RetriedAfterExpiry();
  metrics.GrantRepeated();
  metrics.GrantRelaxed();
  EXPECT_EQ(ValueOf(metrics, "idempotency_batch_operations", {"Complete"}), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_store_call_duration_seconds", {"Complete"}), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_queued_operations"), 12);
  EXPECT_EQ(ValueOf(metrics, "idempotency_operations_shed_total", {"Reserve", "queue"}), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_operations_shed_total", {"Reserve", "replies"}), 2);
  EXPECT_EQ(ValueOf(metrics, "idempotency_operations_shed_total", {"Reserve", "session"}), 0);
  EXPECT_EQ(ValueOf(metrics, "idempotency_operations_overdue_total", {"Extend"}), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_store_errors_total", {"Get", "RECORD_DAMAGED"}), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_store_errors_total", {"Get", "ABORTED"}), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_reservations_lost_total", {"Complete"}), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_lease_overruns_total"), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_take_overs_total"), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_retries_after_expiry_total"), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_repeated_grants_total"), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_relaxed_grants_total"), 1);
}

TEST(MetricsTest, CountsTheSweeper) {
  Metrics metrics;
  SweepProgress progress;
  progress.removed = 40;
  progress.marked_unknown = 2;
  metrics.SweepStepDone(progress, absl::Milliseconds(5));
  metrics.SweepStepDone(absl::UnavailableError(""), absl::Milliseconds(5));
  SweepProgress nothing;
  nothing.elsewhere = true;
  metrics.SweepStepDone(nothing, absl::Milliseconds(5));
  EXPECT_EQ(ValueOf(metrics, "idempotency_swept_records_total"), 40);
  EXPECT_EQ(ValueOf(metrics, "idempotency_marked_unknown_total"), 2);
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_errors_total"), 0) << "passes count, not steps";
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_step_duration_seconds"), 1) << "steps of work";
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweeps_elsewhere_total"), 1);
}

TEST(MetricsTest, CountsEachRecordThatBecomesUnknown) {
  Metrics metrics;
  metrics.MarkedUnknown();
  SweepProgress progress;
  progress.marked_unknown = 2;
  metrics.SweepStepDone(progress, absl::Milliseconds(5));
  EXPECT_EQ(ValueOf(metrics, "idempotency_marked_unknown_total"), 3);
}

// The series of the keys, by their ids.
std::vector<std::string> KeyRingKeys(const Metrics& metrics) {
  std::vector<std::string> ids;
  for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
    if (family.name != "idempotency_keyring_key_info") continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      EXPECT_EQ(metric.gauge.value, 1);
      ids.push_back(metric.label.at(0).value);
    }
  }
  return ids;
}

TEST(MetricsTest, AKeyThatLeavesTheRingHasNoSeries) {
  Metrics metrics;
  EXPECT_THAT(KeyRingKeys(metrics), IsEmpty());
  metrics.KeyRingUsed({1, 4'000'000'000});
  EXPECT_THAT(KeyRingKeys(metrics), UnorderedElementsAre("1", "4000000000"));
  metrics.KeyRingUsed({4'000'000'000, 3});
  EXPECT_THAT(KeyRingKeys(metrics), UnorderedElementsAre("3", "4000000000"));
}

TEST(MetricsTest, CountsUnknownRecordsThatEnd) {
  Metrics metrics;
  EndUnknownStep step;
  step.ended = 3;
  metrics.UnknownEnded(step);
  metrics.UnknownEnded(absl::UnavailableError(""));
  EXPECT_EQ(ValueOf(metrics, "idempotency_unknown_ended_total"), 3);
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_errors_total"), 0) << "passes count, not steps";
}

TEST(MetricsTest, RefusedAdministratorsCountApart) {
  Metrics metrics;
  RefusedCaller caller;
  metrics.CallerRefused(caller);
  caller.is_administration = true;
  metrics.CallerRefused(caller);
  metrics.CallerRefused(caller);
  EXPECT_EQ(ValueOf(metrics, "idempotency_callers_refused_total", {"operations"}), 1);
  EXPECT_EQ(ValueOf(metrics, "idempotency_callers_refused_total", {"administration"}), 2);
}

TEST(MetricsTest, OnlyAProcessThatSweepsHasAnInterval) {
  Metrics metrics;
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_interval_seconds"), 0);
  metrics.SweeperStarted(absl::Minutes(1));
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_interval_seconds"), 60);
}

// Otherwise restarts would hide from an alert that no sweep ends.
TEST(MetricsTest, TheStartOfASweeperEndsNoSweep) {
  Metrics metrics;
  metrics.SweeperStarted(absl::Minutes(1));
  EXPECT_EQ(ValueOf(metrics, "idempotency_sweep_completed_timestamp_seconds"), 0);
  const double before = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  metrics.SweepCompleted();
  EXPECT_GE(ValueOf(metrics, "idempotency_sweep_completed_timestamp_seconds"), before - 1);
}

// increase() misses the first event of a series that begins with it.
TEST(MetricsTest, CodesThatAlertsNameHaveTheirSeriesFromTheStart) {
  const Metrics metrics;
  for (const char* code : {"OK", "UNAVAILABLE", "INTERNAL", "UNKNOWN", "DATA_LOSS",
                           "DEADLINE_EXCEEDED", "PERMISSION_DENIED", "UNAUTHENTICATED"}) {
    for (const char* method : {"Reserve", "Complete", "Release", "Extend", "Get"}) {
      EXPECT_EQ(ValueOf(metrics, "idempotency_rpc_duration_seconds", {code, method}), 0);
    }
  }
}

// 0 would be a fall, and the first inspection a rise.
TEST(MetricsTest, GaugesOfTheStoreAreNoNumberBeforeTheyAreRead) {
  Metrics metrics;
  EXPECT_TRUE(std::isnan(ValueOf(metrics, "idempotency_unknown_records")));
  metrics.StoreInspected(absl::UnavailableError(""));
  EXPECT_TRUE(std::isnan(ValueOf(metrics, "idempotency_unknown_records")));
  EXPECT_TRUE(std::isnan(ValueOf(metrics, "idempotency_oldest_reservation_age_seconds")));
  metrics.StoreInspected(StoreGauges{});
  EXPECT_EQ(ValueOf(metrics, "idempotency_store_up"), 1) << "only they could not be read";
  EXPECT_TRUE(std::isnan(ValueOf(metrics, "idempotency_unknown_records")));
  EXPECT_TRUE(std::isnan(ValueOf(metrics, "idempotency_oldest_reservation_age_seconds")));
  metrics.StoreInspected(StoreGauges{absl::ZeroDuration(), 0});
  EXPECT_EQ(ValueOf(metrics, "idempotency_unknown_records"), 0);
  EXPECT_EQ(ValueOf(metrics, "idempotency_oldest_reservation_age_seconds"), 0);
}

TEST(MetricsTest, TheLogOfASqliteFileHasASize) {
  constexpr char kBytes[] = "idempotency_sqlite_wal_bytes";
  Metrics metrics;
  metrics.StoreInspected(StoreGauges{absl::ZeroDuration(), 0});
  EXPECT_TRUE(std::isnan(ValueOf(metrics, kBytes))) << "another store";
  StoreGauges gauges;
  gauges.sqlite_wal_bytes = 4096;
  metrics.StoreInspected(gauges);
  EXPECT_EQ(ValueOf(metrics, kBytes), 4096);
}

TEST(MetricsTest, ServersOfRedisThatLostDataAreCounted) {
  constexpr char kLost[] = "idempotency_redis_lost_servers";
  Metrics metrics;
  metrics.StoreInspected(StoreGauges{absl::ZeroDuration(), 0});
  EXPECT_TRUE(std::isnan(ValueOf(metrics, kLost))) << "another store";
  StoreGauges gauges;
  gauges.redis_lost_servers = 1;
  metrics.StoreInspected(gauges);
  EXPECT_EQ(ValueOf(metrics, kLost), 1);
}

// A comparison with one of before, or with NaN, says nothing.
TEST(MetricsTest, GaugesThatCannotBeReadAreSeen) {
  constexpr char kRead[] = "idempotency_store_gauges_read";
  Metrics metrics;
  EXPECT_EQ(ValueOf(metrics, kRead), 1);
  StoreGauges unread;
  unread.read = false;
  metrics.StoreInspected(unread);
  EXPECT_EQ(ValueOf(metrics, kRead), 0);
  metrics.StoreInspected(StoreGauges{absl::ZeroDuration(), 0});
  EXPECT_EQ(ValueOf(metrics, kRead), 1);
  metrics.StoreInspected(unread);
  metrics.StoreInspected(absl::UnavailableError(""));
  EXPECT_EQ(ValueOf(metrics, kRead), 1) << "idempotency_store_up is 0";
}

TEST(MetricsTest, CertificatesHaveTheirValidity) {
  Metrics metrics;
  metrics.CertificateLoaded(CertificateUse::kServer, {absl::FromUnixSeconds(1'700'000'000),
                                                      absl::FromUnixSeconds(1'800'000'000)});
  EXPECT_EQ(ValueOf(metrics, "idempotency_certificate_not_before_timestamp_seconds", {"server"}),
            1'700'000'000);
  EXPECT_EQ(ValueOf(metrics, "idempotency_certificate_not_after_timestamp_seconds", {"server"}),
            1'800'000'000);
}

TEST(MetricsTest, GaugesKeepTheirLastValueWhileTheStoreIsAway) {
  Metrics metrics;
  metrics.StoreInspected(StoreGauges{absl::Seconds(90), 3});
  EXPECT_EQ(ValueOf(metrics, "idempotency_store_up"), 1);
  metrics.StoreInspected(absl::UnavailableError(""));
  EXPECT_EQ(ValueOf(metrics, "idempotency_store_up"), 0);
  EXPECT_EQ(ValueOf(metrics, "idempotency_oldest_reservation_age_seconds"), 90);
  EXPECT_EQ(ValueOf(metrics, "idempotency_unknown_records"), 3);
}

TEST(MetricsTest, NothingThatACallerChoseBecomesALabel) {
  Metrics metrics;
  metrics.MismatchSeen("chosen-namespace", "/chosen.Operation/Call", RecordId{});
  metrics.StoreFailed(OperationKind::kReserve, RecordId{}, absl::InternalError("chosen-text"));
  RefusedCaller refused;
  refused.identity = refused.name_space = refused.peer = "chosen";
  metrics.CallerRefused(refused);
  EXPECT_THAT(Describe(metrics), Not(HasSubstr("chosen")));
}

TEST(MetricsTest, AnUnlistedCodeCountsAsUnknown) {
  Metrics metrics;
  metrics.RpcFinished(OperationKind::kGet, absl::Status(static_cast<absl::StatusCode>(99), "odd"),
                      absl::Milliseconds(1));
  EXPECT_EQ(ValueOf(metrics, "idempotency_rpc_duration_seconds", {"UNKNOWN", "Get"}), 1);
}

}  // namespace
}  // namespace idempotency::internal
