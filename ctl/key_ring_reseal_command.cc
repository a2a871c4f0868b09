#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "ctl/commands.h"
#include "explanation/printable_text.h"

namespace idempotency::internal {
namespace {

// Adds what one call did to the sums of a run.
void Add(const v1::ResealResponse& page, v1::ResealResponse& sums) {
  sums.set_examined(sums.examined() + page.examined());
  sums.set_resealed(sums.resealed() + page.resealed());
  sums.set_current(sums.current() + page.current());
  sums.set_unsealed(sums.unsealed() + page.unsealed());
  sums.set_damaged(sums.damaged() + page.damaged());
  sums.set_busy(sums.busy() + page.busy());
  sums.set_sealing_key_id(page.sealing_key_id());
  for (const std::string& id : page.damaged_record_ids()) {
    // As many as one call names.
    if (sums.damaged_record_ids_size() < 100) sums.add_damaged_record_ids(id);
  }
  std::map<std::uint32_t, v1::SealingKeyUse> uses;
  for (const auto* const all : {&sums.key_uses(), &page.key_uses()}) {
    for (const v1::SealingKeyUse& use : *all) {
      v1::SealingKeyUse& sum = uses[use.key_id()];
      sum.set_key_id(use.key_id());
      sum.set_contents(sum.contents() + use.contents());
      sum.set_fingerprints(sum.fingerprints() + use.fingerprints());
    }
  }
  sums.clear_key_uses();
  for (auto& [id, use] : uses) *sums.add_key_uses() = std::move(use);
}

class ResealCommand final : public Command {
 public:
  absl::string_view name() const override { return "keyring reseal"; }
  absl::string_view summary() const override { return "seal stored replies under the newest key"; }
  absl::string_view description() const override {
    return "Reseals the stored replies and checkpoints of a namespace under the key that seals\n"
           "now, so that previous keys open none of them. It counts the records and requests a\n"
           "confirmation before it writes; interrupted, it may be run again. Run it until it "
           "finds\n"
           "nothing to seal. Fingerprints stay under their keys. Needs the permission ADMIN.";
  }

  void AddFlags(FlagSet& flags) override {
    flags.AddName("namespace", "NAME", &namespace_, "The namespace. Required.");
    flags.AddText("reason", "TEXT", &reason_,
                  "Why, for the audit log. Required. No keys, no personal data: it is kept.");
    flags.AddSwitch("dry_run", &dry_run_, "Open and count, and change nothing.");
    flags.AddSwitch("yes", &yes_, "Write without a count and a confirmation.");
    flags.AddSwitch("json", &json_, "Print the sums as a line of JSON, as ResealResponse.");
  }

  absl::Status Validate(absl::string_view /*operand*/) override {
    if (namespace_.empty()) {
      return absl::InvalidArgumentError("--namespace is missing; write --namespace=NAME");
    }
    return reason_.empty() ? absl::InvalidArgumentError("--reason is missing") : absl::OkStatus();
  }

  absl::Status Run(Service* service, Terminal& terminal) override {
    if (dry_run_ || !yes_) {
      const absl::StatusOr<v1::ResealResponse> counted = Reseal(service, true, terminal);
      if (!counted.ok()) return counted.status();
      if (dry_run_) {
        Show(*counted, "would be resealed", terminal);
        return absl::OkStatus();
      }
      if (!terminal.Confirm(absl::StrCat("Reseal ", counted->resealed(), " records under key ",
                                         counted->sealing_key_id(), "?"))) {
        return NotConfirmed("nothing was changed; --yes reseals without a question");
      }
    }
    const absl::StatusOr<v1::ResealResponse> resealed = Reseal(service, false, terminal);
    if (!resealed.ok()) return resealed.status();
    Show(*resealed, "are resealed", terminal);
    return absl::OkStatus();
  }

 private:
  // Over all pages; the sums.
  absl::StatusOr<v1::ResealResponse> Reseal(Service* service, bool validate_only,
                                            Terminal& terminal) const {
    v1::ResealRequest request;
    request.set_namespace_(namespace_);
    request.set_reason(reason_);
    request.set_validate_only(validate_only);
    v1::ResealResponse sums;
    while (true) {
      const absl::StatusOr<v1::ResealResponse> page = service->Reseal(request);
      if (!page.ok()) {
        if (sums.resealed() == 0 || validate_only) return page.status();
        return absl::Status(
            page.status().code(),
            absl::StrCat(page.status().message(), "; ", sums.resealed(),
                         " records are resealed already: run it again for the others"));
      }
      Add(*page, sums);
      if (page->next_page_token().empty()) return sums;
      terminal.Note(absl::StrCat("examined ", sums.examined(), " records so far, ",
                                 validate_only ? "would reseal " : "resealed ", sums.resealed(),
                                 "\n"));
      request.set_page_token(page->next_page_token());
    }
  }

  void Show(const v1::ResealResponse& sums, absl::string_view verb, Terminal& terminal) const {
    if (json_) {
      terminal.PrintJson(sums);
      return;
    }
    std::string text =
        absl::StrCat(sums.resealed(), " of ", sums.examined(), " records ", verb, " under key ",
                     sums.sealing_key_id(), "; ", sums.current(), " were under it.\n");
    if (sums.busy() > 0) {
      absl::StrAppend(&text, sums.busy(), " stay: they were in use. Run it again.\n");
    }
    if (sums.unsealed() > 0) {
      absl::StrAppend(&text, sums.unsealed(), " stay as they are: they were stored unsealed.\n");
    }
    if (sums.damaged() > 0) {
      absl::StrAppend(&text, sums.damaged(), " stay as they are: they cannot be opened or read:\n");
      for (const std::string& id : sums.damaged_record_ids()) {
        absl::StrAppend(&text, "  ", PrintableText(id), "\n");
      }
    }
    absl::StrAppend(&text, "Keys, as the records were found:\n");
    for (const v1::SealingKeyUse& use : sums.key_uses()) {
      absl::StrAppend(
          &text, "  ",
          use.key_id() == 0 ? std::string("none of the ring") : absl::StrCat("key ", use.key_id()),
          ": ", use.contents(), " with content, ", use.fingerprints(), " with a fingerprint\n");
    }
    terminal.Print(text);
  }

  std::string namespace_;
  std::string reason_;
  bool dry_run_ = false;
  bool yes_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> NewKeyRingResealCommand() { return std::make_unique<ResealCommand>(); }

}  // namespace idempotency::internal
