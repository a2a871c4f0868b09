#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/wire_time.h"
#include "ctl/commands.h"
#include "ctl/record_selector.h"
#include "ctl/record_text.h"
#include "ctl/text_table.h"
#include "explanation/printable_text.h"
#include "explanation/time_text.h"

namespace idempotency::internal {
namespace {

// The upper ends of the ages that are counted apart.
constexpr std::array<absl::Duration, 3> kAges = {absl::Minutes(1), absl::Hours(1), absl::Hours(24)};

class StatsCommand final : public Command {
 public:
  absl::string_view name() const override { return "stats"; }
  absl::string_view summary() const override { return "count the records of a namespace"; }
  absl::string_view description() const override {
    return "Counts the selected records by operation, state and age, by reading them. For sums of\n"
           "whole namespaces that cost nothing see the metrics of idempotencyd. Needs the\n"
           "permission READ.";
  }

  void AddFlags(FlagSet& flags) override {
    filter_.AddTo(flags);
    flags.AddInt("limit", &limit_, 1, 10'000'000, "The most records that are read.");
  }

  absl::Status Validate(absl::string_view /*operand*/) override { return filter_.Validate(); }

  absl::Status Run(Service* service, Terminal& terminal) override {
    const absl::Time now = terminal.Now();
    int read = 0;
    const absl::StatusOr<Service::Visited> visited =
        service->VisitRecords(filter_.ToRequest(now), [&](const v1::Record& record) {
          if (read == limit_) return false;
          ++read;
          Count(record, now - FromWire(record.created_at()));
          return true;
        });
    if (!visited.ok()) return visited.status();
    terminal.Print(Table().TakeText(terminal.width()));
    NoteDamaged(visited->damaged, terminal);
    if (!visited->all) {
      terminal.Note(absl::StrCat("Only ", limit_, " records were read: raise --limit.\n"));
    }
    return absl::OkStatus();
  }

 private:
  struct Counts {
    // By kAges, and the older ones.
    std::array<int, kAges.size() + 1> by_age{};
    int total = 0;
    absl::Duration oldest = absl::ZeroDuration();
  };
  // More operations than a person reads: the others share a row.
  static constexpr std::size_t kMaxRows = 1000;

  void Count(const v1::Record& record, absl::Duration age) {
    std::pair<std::string, std::string> row = {PrintableText(record.record_key().operation()),
                                               StateText(record.state())};
    if (rows_.size() >= kMaxRows && rows_.count(row) == 0) row.first = "(other operations)";
    Counts& counts = rows_[std::move(row)];
    ++counts.total;
    counts.oldest = std::max(counts.oldest, age);
    ++counts.by_age[std::upper_bound(kAges.begin(), kAges.end(), age) - kAges.begin()];
  }

  TextTable Table() const {
    TextTable table({"OPERATION", "STATE", "RECORDS", "<1m", "<1h", "<1d", "OLDER", "OLDEST"});
    for (const auto& [row, counts] : rows_) {
      std::vector<std::string> cells = {row.first, row.second, absl::StrCat(counts.total)};
      for (const int count : counts.by_age) cells.push_back(absl::StrCat(count));
      cells.push_back(SpanText(counts.oldest));
      table.AddRow(std::move(cells));
    }
    return table;
  }

  RecordFilter filter_;
  int limit_ = 100'000;
  std::map<std::pair<std::string, std::string>, Counts> rows_;
};

}  // namespace

std::unique_ptr<Command> NewStatsCommand() { return std::make_unique<StatsCommand>(); }

}  // namespace idempotency::internal
