#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/wire_time.h"
#include "ctl/commands.h"
#include "ctl/record_selector.h"
#include "ctl/record_text.h"
#include "explanation/printable_text.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

class PurgeCommand final : public Command {
 public:
  absl::string_view name() const override { return "purge"; }
  absl::string_view operand() const override { return "[RECORD_ID]"; }
  absl::string_view summary() const override { return "forget a record, a scope, or old records"; }
  absl::string_view description() const override {
    return "Forgets one record (RECORD_ID, or all four parts of its key), all records of a scope\n"
           "(--namespace and --scope), or those of a namespace that are older than --older_than.\n"
           "Without a tombstone a retry that arrives late runs again: for more than one record "
           "set\n"
           "--tombstone, with 0s if that is intended. It counts the records and requests a\n"
           "confirmation before it writes; interrupted, it may be run again. Needs the permission\n"
           "ADMIN.";
  }

  void AddFlags(FlagSet& flags) override {
    flags.AddName("namespace", "NAME", &namespace_, "Of the records, if not given by an id.");
    flags.AddName("scope", "NAME", &scope_, "All records of this scope.");
    flags.AddName("operation", "NAME", &operation_, "With --key: one record.");
    flags.AddName("key", "KEY", &key_, "With --operation and --scope: one record.");
    flags.AddDuration("older_than", &older_than_, absl::ZeroDuration(), limits::kMaxRetention,
                      "All records that were first reserved longer ago, by this machine's clock.");
    flags.AddText("reason", "TEXT", &reason_,
                  "Why, for the audit log. Required. No keys, no personal data: it is kept.");
    flags.AddDuration(
        "tombstone", &tombstone_, absl::ZeroDuration(), limits::kMaxRetention,
        "How long the keys are refused afterwards; 0s: not at all. Required for more than\n"
        "one record.");
    flags.AddSwitch(
        "force", &force_,
        "Also records whose operation may then run twice: UNKNOWN, or RESERVED under a\n"
        "live lease or REQUIRE_RECOVERY.");
    flags.AddSwitch("dry_run", &dry_run_, "Count, and change nothing.");
    flags.AddSwitch("yes", &yes_, "Write without a confirmation.");
    flags.AddSwitch(
        "no_count", &no_count_,
        "With --yes, for more than one record: do not count before, which takes as long.");
    flags.AddSwitch("json", &json_, "Print the sums as a line of JSON, as PurgeResponse.");
  }

  absl::Status Validate(absl::string_view operand) override {
    if (reason_.empty()) return absl::InvalidArgumentError("--reason is missing");
    if (LeavesTombstones() && *tombstone_ < limits::kMinRetention) {
      return absl::InvalidArgumentError(
          "--tombstone must be 0s, or 1s or longer: it is how long the keys are refused");
    }
    const bool by_parts = !operation_.empty() || !key_.empty();
    const bool by_age = older_than_ > absl::ZeroDuration();
    if (!operand.empty()) {
      if (by_parts || by_age || !namespace_.empty() || !scope_.empty()) return NotOne();
      id_ = std::string(operand);
      if (no_count_) return CannotSkipTheCount();
      return ValidateRecordId(operand);
    }
    if (namespace_.empty()) return NotOne();
    if (by_parts) {
      const bool whole = !operation_.empty() && !key_.empty() && !scope_.empty();
      if (!whole || by_age) return NotOne();
      return no_count_ ? CannotSkipTheCount() : absl::OkStatus();
    }
    if (scope_.empty() != by_age) return NotOne();
    if (no_count_ && (!yes_ || dry_run_)) return CannotSkipTheCount();
    if (tombstone_ || dry_run_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--tombstone is missing: without one a late retry of each of these calls runs again. Write "
        "how long their keys are refused, for example --tombstone=24h, or --tombstone=0s to let "
        "them run again");
  }

  absl::Status Run(Service* service, Terminal& terminal) override {
    v1::PurgeRequest request = Request(terminal.Now());
    if (!no_count_) {
      request.set_validate_only(true);
      const absl::StatusOr<v1::PurgeResponse> counted = Purge(service, request, terminal);
      if (!counted.ok()) return counted.status();
      if (dry_run_) {
        Show(*counted, "would be forgotten", terminal);
        return absl::OkStatus();
      }
      if (!json_) Show(*counted, "will be forgotten", terminal);
      if (!yes_ && !terminal.Confirm(Question(*counted, request))) {
        return NotConfirmed("nothing was changed; --yes purges without a question");
      }
      request.set_validate_only(false);
      // Of one record: only what was counted.
      request.set_expected_state(counted->previous_state());
      request.set_expected_attempt(counted->attempt());
    }
    const absl::StatusOr<v1::PurgeResponse> purged = Purge(service, request, terminal);
    if (!purged.ok()) return purged.status();
    Show(*purged, "are forgotten", terminal);
    return absl::OkStatus();
  }

 private:
  static absl::Status NotOne() {
    return absl::InvalidArgumentError(
        "give RECORD_ID; or --namespace, --scope, --operation and --key; or --namespace and "
        "--scope; or --namespace and --older_than");
  }

  static absl::Status CannotSkipTheCount() {
    return absl::InvalidArgumentError(
        "--no_count is for more than one record, with --yes and without --dry_run");
  }

  v1::PurgeRequest Request(absl::Time now) const {
    v1::PurgeRequest request;
    request.set_reason(reason_);
    request.set_force(force_);
    if (LeavesTombstones()) *request.mutable_tombstone() = ToWire(*tombstone_);
    if (!id_.empty()) {
      request.set_record_id(id_);
    } else if (!key_.empty()) {
      v1::RecordKey& key = *request.mutable_record_key();
      key.set_namespace_(namespace_);
      key.set_scope(scope_);
      key.set_operation(operation_);
      key.set_key(key_);
    } else if (!scope_.empty()) {
      request.mutable_scope()->set_namespace_(namespace_);
      request.mutable_scope()->set_scope(scope_);
    } else {
      request.mutable_before()->set_namespace_(namespace_);
      ToWire(now - older_than_, *request.mutable_before()->mutable_created_before());
    }
    return request;
  }

  // Over all pages; the sums.
  static absl::StatusOr<v1::PurgeResponse> Purge(Service* service, v1::PurgeRequest request,
                                                 Terminal& terminal) {
    v1::PurgeResponse sums;
    while (true) {
      const absl::StatusOr<v1::PurgeResponse> page = service->Purge(request);
      if (!page.ok()) {
        if (sums.purged() == 0 || request.validate_only()) return page.status();
        return absl::Status(
            page.status().code(),
            absl::StrCat(page.status().message(), "; ", sums.purged(),
                         " records are forgotten already: run it again for the others"));
      }
      sums.set_purged(sums.purged() + page->purged());
      sums.set_refused(sums.refused() + page->refused());
      sums.set_busy(sums.busy() + page->busy());
      sums.set_previous_state(page->previous_state());
      sums.set_attempt(page->attempt());
      if (page->next_page_token().empty()) return sums;
      terminal.Note(absl::StrCat(request.validate_only() ? "counted " : "forgot ", sums.purged(),
                                 " so far\n"));
      request.set_page_token(page->next_page_token());
    }
  }

  bool LeavesTombstones() const {
    return tombstone_.value_or(absl::ZeroDuration()) > absl::ZeroDuration();
  }

  // The target in words.
  static std::string TargetText(const v1::PurgeRequest& request) {
    switch (request.target_case()) {
      case v1::PurgeRequest::kScope:
        return absl::StrCat("of the scope ", PrintableText(request.scope().scope()),
                            " in the namespace ", PrintableText(request.scope().namespace_()));
      case v1::PurgeRequest::kBefore:
        return absl::StrCat(
            "of the namespace ", PrintableText(request.before().namespace_()),
            " that were first reserved before ",
            absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", FromWire(request.before().created_before()),
                             absl::UTCTimeZone()));
      case v1::PurgeRequest::kRecordKey:
        return absl::StrCat("with the key ", PrintableText(request.record_key().key()), " of ",
                            PrintableText(request.record_key().operation()), ", scope ",
                            PrintableText(request.record_key().scope()), ", namespace ",
                            PrintableText(request.record_key().namespace_()));
      case v1::PurgeRequest::kRecordId:
      case v1::PurgeRequest::TARGET_NOT_SET:
        break;
    }
    return absl::StrCat("with the id ", PrintableText(request.record_id()));
  }

  std::string Question(const v1::PurgeResponse& counted, const v1::PurgeRequest& request) const {
    const absl::string_view after = LeavesTombstones()
                                        ? "their keys are refused for the time of --tombstone"
                                        : "a late retry of theirs will run again";
    return absl::StrCat("Forget ", counted.purged(), " records ", TargetText(request), " (", after,
                        ")?");
  }

  void Show(const v1::PurgeResponse& sums, absl::string_view verb, Terminal& terminal) const {
    if (json_) {
      terminal.PrintJson(sums);
      return;
    }
    std::string text = absl::StrCat(sums.purged(), " records ", verb, ".\n");
    if (sums.refused() > 0) {
      absl::StrAppend(&text, sums.refused(),
                      " stay: their operations might run twice. Settle them with `resolve`, or set "
                      "--force.\n");
    }
    if (sums.busy() > 0) {
      absl::StrAppend(&text, sums.busy(),
                      " stay: they were in use. Run it again. Those that stay each time are locked "
                      "for long, or cannot be written: see `list`, and the server's log.\n");
    }
    terminal.Print(text);
  }

  std::string id_;
  std::string namespace_;
  std::string scope_;
  std::string operation_;
  std::string key_;
  absl::Duration older_than_ = absl::ZeroDuration();
  std::string reason_;
  std::optional<absl::Duration> tombstone_;
  bool force_ = false;
  bool dry_run_ = false;
  bool yes_ = false;
  bool no_count_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewPurgeCommand() { return std::make_unique<PurgeCommand>(); }

}  // namespace idempotency::internal
