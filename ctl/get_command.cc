#include "absl/strings/str_cat.h"

#include "ctl/commands.h"
#include "ctl/record_selector.h"
#include "ctl/record_text.h"

namespace idempotency::internal {
namespace {

class GetCommand final : public Command {
 public:
  absl::string_view name() const override { return "get"; }
  absl::string_view operand() const override { return "[RECORD_ID]"; }
  absl::string_view summary() const override { return "show one record"; }
  absl::string_view description() const override {
    return "Shows the record with an id, as in the metadata `idempotency-record` of a guarded\n"
           "reply, or with the four parts of a key. Needs the permission READ; with --content\n"
           "READ_CONTENT.";
  }

  void AddFlags(FlagSet& flags) override {
    record_.AddTo(flags);
    flags.AddSwitch("content", &content_, "Also show the reply's body, details and metadata.");
    flags.AddSwitch("json", &json_, "Print one line of JSON, as idempotency.v1.Record.");
  }

  absl::Status Validate(absl::string_view operand) override { return record_.Set(operand); }

  absl::Status Run(Service* service, Terminal& terminal) override {
    const v1::RecordView view = content_ ? v1::RECORD_VIEW_FULL : v1::RECORD_VIEW_BASIC;
    const absl::StatusOr<v1::Record> record = service->Get(record_.ToRequest(view));
    if (!record.ok()) return record.status();
    if (json_) {
      terminal.PrintJson(*record);
      return absl::OkStatus();
    }
    terminal.Print(DescribeRecord(*record, terminal.Now()));
    if (content_) terminal.Print(DescribeReply(*record));
    return absl::OkStatus();
  }

 private:
  RecordSelector record_;
  bool content_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewGetCommand() { return std::make_unique<GetCommand>(); }

}  // namespace idempotency::internal
