#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "ctl/commands.h"
#include "ctl/interrupts.h"
#include "ctl/record_selector.h"
#include "ctl/record_text.h"
#include "explanation/printable_text.h"

namespace idempotency::internal {
namespace {

class WatchCommand final : public Command {
 public:
  absl::string_view name() const override { return "watch"; }
  absl::string_view summary() const override { return "show records as they change"; }
  absl::string_view description() const override {
    return "Lists the selected records again and again, and prints a line for each one that is\n"
           "new, changed or gone, until it is interrupted. A state that lasts less than\n"
           "--interval may be missed. If the service stops answering, stderr has a line for\n"
           "each try, with growing pauses of up to 30 seconds. Needs the permission READ.";
  }

  void AddFlags(FlagSet& flags) override {
    filter_.AddTo(flags);
    flags.AddDuration("interval", &interval_, absl::Milliseconds(200), absl::Hours(1),
                      "Time between two listings.");
    flags.AddInt("limit", &limit_, 1, 10'000, "The most records that are watched.");
    flags.AddInt("listings", &listings_, 0, 1'000'000, "End after this many listings; 0: never.");
    flags.AddSwitch("json", &json_, "Print a line of JSON for each new or changed record.");
  }

  absl::Status Validate(absl::string_view /*operand*/) override { return filter_.Validate(); }

  bool runs_until_interrupted() const override { return true; }

  absl::Status Run(Service* service, Terminal& terminal) override {
    // A listing that has begun ends as well.
    Interrupts interrupts([service] { service->Cancel(); });
    absl::Duration pause = interval_;
    for (int listing = 1;; ++listing) {
      const absl::Status shown = ShowChanges(service, terminal);
      if (interrupts.interrupted()) return absl::OkStatus();
      const bool last = listing == listings_;
      if (!shown.ok() && (last || listing == 1 || !MayPass(shown))) return shown;
      if (last) return absl::OkStatus();
      pause = NextPause(shown, pause, terminal);
      if (!interrupts.Pause(pause)) return absl::OkStatus();
    }
  }

 private:
  using Seen = std::map<std::string, v1::Record>;

  static constexpr absl::Duration kMaxRetryPause = absl::Seconds(30);

  // A replica restarts, the store fails over, the network is interrupted. A server that stops
  // cancels its calls; an interrupt of this program ends it before.
  static bool MayPass(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
           absl::IsCancelled(status);
  }

  // After a listing; reports when the service stops answering, and when it answers again.
  absl::Duration NextPause(const absl::Status& shown, absl::Duration pause, Terminal& terminal) {
    if (shown.ok()) {
      if (std::exchange(failing_, false)) terminal.Note("The service answers again.\n");
      return interval_;
    }
    if (std::exchange(failing_, true)) pause *= 2;
    pause = std::max(interval_, std::min(std::max(pause, absl::Seconds(1)), kMaxRetryPause));
    terminal.Note(absl::StrCat("No listing: ", PrintableText(std::string(shown.message())),
                               "; the next try in ", absl::FormatDuration(pause), ".\n"));
    return pause;
  }

  absl::Status ShowChanges(Service* service, Terminal& terminal) {
    Seen seen;
    const absl::StatusOr<Service::Visited> visited =
        service->VisitRecords(filter_.ToRequest(terminal.Now()), [&](const v1::Record& record) {
          if (seen.size() == static_cast<std::size_t>(limit_)) return false;
          seen.emplace(record.record_id(), record);
          return true;
        });
    if (!visited.ok()) return visited.status();
    if (!visited->all && complete_) {
      terminal.Note(absl::StrCat("Only ", limit_, " records are watched: narrow the selection.\n"));
    }
    complete_ = visited->all;
    // One that was listed before may be one of them.
    if (std::exchange(damaged_, visited->damaged) != visited->damaged) {
      NoteDamaged(visited->damaged, terminal);
    }
    for (const auto& [id, record] : seen) {
      const auto before = seen_.find(id);
      if (before == seen_.end()) {
        Print("+", record, terminal);
      } else if (before->second.state() != record.state() ||
                 before->second.attempt() != record.attempt()) {
        Print("~", record, terminal);
      }
    }
    // Of a cut listing, a record that is missing may still exist.
    for (const auto& [id, record] : seen_) {
      if (complete_ && seen.count(id) == 0 && !json_) Print("-", record, terminal);
    }
    seen_ = std::move(seen);
    return absl::OkStatus();
  }

  void Print(absl::string_view mark, const v1::Record& record, Terminal& terminal) const {
    if (json_) {
      terminal.PrintJson(record);
      return;
    }
    const absl::Time now = terminal.Now();
    std::string line =
        absl::StrCat(mark, " ", absl::FormatTime("%H:%M:%SZ", now, absl::UTCTimeZone()));
    for (const std::string& cell : RecordRow(record, now)) absl::StrAppend(&line, "  ", cell);
    const std::size_t width = terminal.width();
    terminal.Print((width > 0 ? CutToColumns(line, width) : line) + "\n");
  }

  RecordFilter filter_;
  absl::Duration interval_ = absl::Seconds(2);
  int limit_ = 1000;
  int listings_ = 0;
  bool json_ = false;
  bool complete_ = true;
  bool failing_ = false;
  std::int64_t damaged_ = 0;
  Seen seen_;
};

}  // namespace

std::unique_ptr<Command> NewWatchCommand() { return std::make_unique<WatchCommand>(); }

}  // namespace idempotency::internal
