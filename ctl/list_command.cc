#include <string>

#include "absl/strings/str_cat.h"

#include "ctl/commands.h"
#include "ctl/record_selector.h"
#include "ctl/record_text.h"
#include "ctl/text_table.h"
#include "grpc_idempotency/record_key.h"

namespace idempotency::internal {
namespace {

class ListCommand final : public Command {
 public:
  absl::string_view name() const override { return "list"; }
  absl::string_view summary() const override { return "list the records of a namespace"; }
  absl::string_view description() const override {
    return "Lists the records of a namespace for which every given flag holds. UNKNOWN records\n"
           "are found by an index; other listings read the namespace. Needs the permission READ.";
  }

  void AddFlags(FlagSet& flags) override {
    filter_.AddTo(flags);
    flags.AddName(
        "key", "KEY", &key_,
        "Only those of this idempotency key, in any scope and operation: a search through "
        "all that the other flags select.");
    flags.AddInt("limit", &limit_, 1, 1'000'000, "The most records that are listed.");
    flags.AddSwitch("json", &json_, "Print a line of JSON for each, as idempotency.v1.Record.");
  }

  absl::Status Validate(absl::string_view /*operand*/) override {
    key_ = NormaliseKey(key_);
    return filter_.Validate();
  }

  absl::Status Run(Service* service, Terminal& terminal) override {
    const absl::Time now = terminal.Now();
    TextTable table(RecordHeading());
    int shown = 0;
    const absl::StatusOr<Service::Visited> visited = service->VisitRecords(
        filter_.ToRequest(now),
        [&](const v1::Record& record) {
          if (!key_.empty() && record.record_key().key() != key_) return true;
          if (shown == limit_) return false;
          ++shown;
          if (json_) {
            terminal.PrintJson(record);
          } else {
            table.AddRow(RecordRow(record, now));
          }
          return true;
        },
        [&] {
          if (!json_) terminal.Print(table.TakeText(terminal.width()));
        });
    if (!visited.ok()) return visited.status();
    NoteDamaged(visited->damaged, terminal);
    if (!visited->all) {
      terminal.Note(absl::StrCat("There are more than ", limit_, ": raise --limit.\n"));
    }
    return absl::OkStatus();
  }

 private:
  RecordFilter filter_;
  std::string key_;
  int limit_ = 100;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewListCommand() { return std::make_unique<ListCommand>(); }

}  // namespace idempotency::internal
