#include <optional>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "ctl/commands.h"
#include "grpc_idempotency/limits.h"
#include "server/sealing/key_ring_file.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kFileHelp =
    "The key ring, as of `idempotencyd serve --keyring`. Required.";

absl::Status MissingFile() {
  return absl::InvalidArgumentError(
      "--file is missing; write for example --file=/etc/idempotency/private/keyring");
}

class KeyRingGenerateCommand final : public Command {
 public:
  absl::string_view name() const override { return "keyring generate"; }
  absl::string_view summary() const override { return "add a key that seals replies"; }
  absl::string_view description() const override {
    return "Adds a key to a key ring for `idempotencyd serve --keyring`, and makes the file if\n"
           "there is none. Prints no secret. Every replica must have the file before the new key\n"
           "seals.";
  }
  bool connects() const override { return false; }

  void AddFlags(FlagSet& flags) override {
    flags.AddText("file", "FILE", &file_, kFileHelp);
    flags.AddText("seals_in", "DURATION", &seals_in_text_,
                  "When the new key begins to seal, 0s to 8784h. Default: at once for the first\n"
                  "key of a file, otherwise in 1h.");
  }

  absl::Status Validate(absl::string_view /*operand*/) override {
    if (file_.empty()) return MissingFile();
    if (seals_in_text_.empty()) return absl::OkStatus();
    absl::Duration duration;
    if (!absl::ParseDuration(seals_in_text_, &duration) || duration < absl::ZeroDuration() ||
        duration > limits::kMaxRetention) {
      return absl::InvalidArgumentError("--seals_in must be a duration with its unit, 0s to 8784h");
    }
    seals_in_ = duration;
    return absl::OkStatus();
  }

  absl::Status Run(Service* /*service*/, Terminal& terminal) override {
    const absl::Time now = terminal.Now();
    const absl::StatusOr<std::uint32_t> id = GenerateKey(file_, {seals_in_}, now);
    if (!id.ok()) return id.status();
    const absl::StatusOr<std::string> description = DescribeKeyRingFile(file_, now);
    if (!description.ok()) return description.status();
    terminal.Print(absl::StrCat("added key ", *id, " to ", file_, "\n", *description));
    return absl::OkStatus();
  }

 private:
  std::string file_;
  std::string seals_in_text_;
  std::optional<absl::Duration> seals_in_;
};

class KeyRingCheckCommand final : public Command {
 public:
  absl::string_view name() const override { return "keyring check"; }
  absl::string_view summary() const override { return "check a key ring"; }
  absl::string_view description() const override {
    return "Checks whether a key ring can be used, and prints for each key its id, when it seals,\n"
           "and a check value that is the same wherever the secret is the same. Prints no secret.";
  }
  bool connects() const override { return false; }

  void AddFlags(FlagSet& flags) override { flags.AddText("file", "FILE", &file_, kFileHelp); }

  absl::Status Validate(absl::string_view /*operand*/) override {
    return file_.empty() ? MissingFile() : absl::OkStatus();
  }

  absl::Status Run(Service* /*service*/, Terminal& terminal) override {
    const absl::StatusOr<std::string> description = DescribeKeyRingFile(file_, terminal.Now());
    if (!description.ok()) return description.status();
    terminal.Print(*description);
    return absl::OkStatus();
  }

 private:
  std::string file_;
};

}  // namespace

std::unique_ptr<Command> NewKeyRingGenerateCommand() {
  return std::make_unique<KeyRingGenerateCommand>();
}

std::unique_ptr<Command> NewKeyRingCheckCommand() {
  return std::make_unique<KeyRingCheckCommand>();
}

}  // namespace idempotency::internal
