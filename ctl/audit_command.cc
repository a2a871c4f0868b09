#include <optional>

#include "absl/strings/str_cat.h"

#include "ctl/commands.h"
#include "ctl/record_selector.h"
#include "ctl/record_text.h"
#include "ctl/text_table.h"
#include "explanation/printable_text.h"
#include "explanation/time_text.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {
namespace {

class AuditCommand final : public Command {
 public:
  absl::string_view name() const override { return "audit"; }
  absl::string_view summary() const override { return "show the acts of administrators"; }
  absl::string_view description() const override {
    return "Shows the audit log of a namespace, newest entries first. Needs the permission ADMIN.";
  }

  void AddFlags(FlagSet& flags) override {
    flags.AddName("namespace", "NAME", &namespace_, "The namespace. Required.");
    flags.AddName("record", "RECORD_ID", &record_, "Only the entries of this record.");
    flags.AddInt("limit", &limit_, 1, 1'000'000, "The most entries that are shown.");
    flags.AddSwitch("json", &json_, "Print a line of JSON for each, as idempotency.v1.AuditEntry.");
  }

  absl::Status Validate(absl::string_view /*operand*/) override {
    if (namespace_.empty()) {
      return absl::InvalidArgumentError("--namespace is missing; write --namespace=NAME");
    }
    if (record_.empty()) return absl::OkStatus();
    const std::optional<Uuid> id = Uuid::Parse(record_);
    if (!id) return ValidateRecordId(record_);
    // As entries have it.
    record_ = id->ToString();
    return absl::OkStatus();
  }

  absl::Status Run(Service* service, Terminal& terminal) override {
    const absl::Time now = terminal.Now();
    TextTable table({"AT", "RECORD", "ATTEMPT", "STATE", "DONE"});
    int shown = 0;
    v1::ListAuditRequest request;
    request.set_namespace_(namespace_);
    request.set_record_id(record_);
    request.set_newest_first(true);
    const absl::StatusOr<bool> complete = service->VisitAudit(
        request,
        [&](const v1::AuditEntry& entry) {
          // Of a server that is older than the field.
          if (!record_.empty() && entry.record_id() != record_) return true;
          if (shown == limit_) return false;
          ++shown;
          if (json_) {
            terminal.PrintJson(entry);
          } else {
            table.AddRow({TimeText(entry.at(), now), PrintableText(entry.record_id()),
                          absl::StrCat(entry.attempt()), StateText(entry.state()),
                          AuditText(entry)});
          }
          return true;
        },
        [&] {
          if (!json_) terminal.Print(table.TakeText(terminal.width()));
        });
    if (!complete.ok()) return complete.status();
    if (!*complete) {
      terminal.Note(absl::StrCat("There are more than ", limit_, ": raise --limit.\n"));
    }
    return absl::OkStatus();
  }

 private:
  std::string namespace_;
  std::string record_;
  int limit_ = 10'000;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewAuditCommand() { return std::make_unique<AuditCommand>(); }

}  // namespace idempotency::internal
