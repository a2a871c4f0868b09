#include "server/process/key_ring_command.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "server/sealing/key_ring_file.h"

namespace idempotency::internal {

absl::StatusOr<std::string> RunKeyRingCommand(const KeyRingOptions& options) {
  const absl::Time now = absl::Now();
  if (options.action == KeyRingOptions::Action::kCheck) {
    return DescribeKeyRingFile(options.file, now);
  }
  const absl::StatusOr<std::uint32_t> id = GenerateKey(options.file, {options.seals_in}, now);
  if (!id.ok()) return id.status();
  absl::StatusOr<std::string> description = DescribeKeyRingFile(options.file, now);
  if (!description.ok()) return description;
  return absl::StrCat("added key ", *id, " to ", options.file, "\n", *description);
}

}  // namespace idempotency::internal
