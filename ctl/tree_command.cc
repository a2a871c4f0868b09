#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "ctl/commands.h"
#include "ctl/record_selector.h"
#include "ctl/record_text.h"
#include "explanation/printable_text.h"

namespace idempotency::internal {
namespace {

class TreeCommand final : public Command {
 public:
  absl::string_view name() const override { return "tree"; }
  absl::string_view operand() const override { return "[RECORD_ID]"; }
  absl::string_view summary() const override { return "show a record and the calls it made"; }
  absl::string_view description() const override {
    return "Shows a record, and below it the records of the guarded calls that its handler made,\n"
           "and theirs, as far as they are in the same namespace or in those of --namespaces.\n"
           "Needs the permission READ.";
  }

  void AddFlags(FlagSet& flags) override {
    record_.AddTo(flags);
    flags.AddText("namespaces", "NAMES", &namespaces_,
                  "Other namespaces in which calls may be recorded, separated by commas.");
    flags.AddInt("depth", &depth_, 1, 64, "The most levels that are shown.");
    flags.AddInt("limit", &limit_, 1, 100'000, "The most records that are shown.");
    flags.AddSwitch("json", &json_, "Print a line of JSON for each, as idempotency.v1.Record.");
  }

  absl::Status Validate(absl::string_view operand) override { return record_.Set(operand); }

  absl::Status Run(Service* service, Terminal& terminal) override {
    const absl::StatusOr<v1::Record> root = service->Get(record_.ToRequest(v1::RECORD_VIEW_BASIC));
    if (!root.ok()) return root.status();
    for (const absl::string_view name : absl::StrSplit(namespaces_, ',', absl::SkipWhitespace())) {
      searched_.emplace(name);
    }
    searched_.insert(root->record_key().namespace_());
    const absl::Status shown = Show(service, *root, 0, terminal);
    NoteDamaged(damaged_, terminal);
    if (shown_.size() >= static_cast<std::size_t>(limit_)) {
      terminal.Note(absl::StrCat("Only ", limit_, " records are shown: raise --limit.\n"));
    }
    if (too_deep_ > 0) {
      terminal.Note(absl::StrCat("Only ", depth_,
                                 depth_ == 1 ? " level of calls is" : " levels of calls are",
                                 " shown: ", too_deep_, too_deep_ == 1 ? " record" : " records",
                                 " below, raise --depth.\n"));
    }
    return shown;
  }

 private:
  // A record that names itself or a descendant as its parent is shown once.
  absl::Status Show(Service* service, const v1::Record& record, int level, Terminal& terminal) {
    if (shown_.size() >= static_cast<std::size_t>(limit_) ||
        shown_.count(record.record_id()) != 0) {
      return absl::OkStatus();
    }
    if (level > depth_) {
      ++too_deep_;
      return absl::OkStatus();
    }
    shown_.insert(record.record_id());
    Print(record, level, terminal);
    for (const std::string& name_space : searched_) {
      const absl::StatusOr<std::vector<v1::Record>> children =
          Children(service, record, name_space);
      if (!children.ok()) return children.status();
      for (const v1::Record& child : *children) {
        const absl::Status shown = Show(service, child, level + 1, terminal);
        if (!shown.ok()) return shown;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<v1::Record>> Children(Service* service, const v1::Record& record,
                                                   const std::string& name_space) {
    v1::ListRequest request;
    request.set_namespace_(name_space);
    *request.mutable_parent() = record.record_key();
    // A guard names a parent by its id, any other caller by its key.
    std::vector<v1::Record> children;
    for (const std::string& key : {record.record_id(), record.record_key().key()}) {
      request.mutable_parent()->set_key(key);
      const absl::StatusOr<Service::Visited> visited =
          service->VisitRecords(request, [&](const v1::Record& child) {
            children.push_back(child);
            return children.size() < static_cast<std::size_t>(limit_);
          });
      if (!visited.ok()) return visited.status();
      damaged_ += visited->damaged;
    }
    return children;
  }

  void Print(const v1::Record& record, int level, Terminal& terminal) const {
    if (json_) {
      terminal.PrintJson(record);
      return;
    }
    const std::string line = absl::StrCat(
        std::string(2 * static_cast<std::size_t>(level), ' '),
        PrintableText(record.record_key().operation()), "  ", StateText(record.state()),
        " attempt ", record.attempt(), "  ", PrintableText(record.record_key().namespace_()), "/",
        PrintableText(record.record_key().scope()), "  ", PrintableText(record.record_id()));
    const std::size_t width = terminal.width();
    terminal.Print((width > 0 ? CutToColumns(line, width) : line) + "\n");
  }

  RecordSelector record_;
  std::string namespaces_;
  int depth_ = 16;
  int limit_ = 1000;
  bool json_ = false;
  std::set<std::string> searched_;
  std::set<std::string> shown_;
  // Records of the first level that is not shown.
  int too_deep_ = 0;
  // Among the children that were looked for.
  std::int64_t damaged_ = 0;
};

}  // namespace

std::unique_ptr<Command> NewTreeCommand() { return std::make_unique<TreeCommand>(); }

}  // namespace idempotency::internal
