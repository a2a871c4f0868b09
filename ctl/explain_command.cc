#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "ctl/commands.h"
#include "ctl/record_selector.h"
#include "ctl/record_text.h"
#include "explanation/printable_text.h"
#include "explanation/record_story.h"
#include "explanation/time_text.h"

namespace idempotency::internal {
namespace {

class ExplainCommand final : public Command {
 public:
  absl::string_view name() const override { return "explain"; }
  absl::string_view operand() const override { return "[RECORD_ID]"; }
  absl::string_view summary() const override { return "explain a record's state and history"; }
  absl::string_view description() const override {
    return "Prints the history of a record, the verdict that a call with its key gets now, the\n"
           "reason, and the remedy. Needs the permission READ; with ADMIN the history includes\n"
           "the acts of administrators.";
  }

  void AddFlags(FlagSet& flags) override {
    record_.AddTo(flags);
    flags.AddInt(
        "audit_limit", &audit_limit_, 0, 1'000'000,
        "The most entries of the record in the audit log that are shown, the newest; 0: none.");
  }

  absl::Status Validate(absl::string_view operand) override { return record_.Set(operand); }

  absl::Status Run(Service* service, Terminal& terminal) override {
    const absl::StatusOr<v1::Record> record =
        service->Get(record_.ToRequest(v1::RECORD_VIEW_BASIC));
    if (!record.ok()) return record.status();
    const absl::Time now = terminal.Now();
    terminal.Print(absl::StrCat(DescribeRecord(*record, now), "\n", StoryOf(*record, now), "\n"));
    if (audit_limit_ > 0) PrintAudit(service, *record, terminal);
    terminal.Print(absl::StrCat(
        "\nA call with this key and the same request gets now: ", NextVerdict(*record, now),
        ".\nWith another request: mismatch (KEY_REUSED).\n"));
    const std::string remedy = Remedy(*record, now);
    if (!remedy.empty()) terminal.Print(absl::StrCat("\n", remedy, "\n"));
    return absl::OkStatus();
  }

 private:
  void PrintAudit(Service* service, const v1::Record& record, Terminal& terminal) const {
    v1::ListAuditRequest request;
    request.set_namespace_(record.record_key().namespace_());
    request.set_record_id(record.record_id());
    request.set_newest_first(true);
    std::vector<std::string> lines;
    const absl::StatusOr<bool> complete =
        service->VisitAudit(request, [&](const v1::AuditEntry& entry) {
          // Of a server that is older than the field.
          if (entry.record_id() != record.record_id()) return true;
          if (static_cast<int>(lines.size()) == audit_limit_) return false;
          lines.push_back(
              absl::StrCat(TimeText(entry.at(), terminal.Now()), "  ", AuditText(entry), "\n"));
          return true;
        });
    if (!complete.ok()) {
      terminal.Note(absl::StrCat("What administrators did is not included: ",
                                 PrintableText(std::string(complete.status().message())), "\n"));
      return;
    }
    std::reverse(lines.begin(), lines.end());
    if (!lines.empty()) {
      terminal.Print(absl::StrCat("\nAdministrators:\n", absl::StrJoin(lines, "")));
    }
    if (!*complete) {
      terminal.Note(absl::StrCat("Administrators did more with it than the --audit_limit=",
                                 audit_limit_, " entries: raise it to see all.\n"));
    }
  }

  RecordSelector record_;
  int audit_limit_ = 10'000;
};

}  // namespace

std::unique_ptr<Command> NewExplainCommand() { return std::make_unique<ExplainCommand>(); }

}  // namespace idempotency::internal
