#include "server/store/reseal_operations.h"

#include <utility>

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

std::vector<ContentReplacement> ResealAll(ContentSealer& sealer,
                                          std::vector<StoredContent> contents) {
  std::vector<ContentReplacement> replacements;
  for (StoredContent& stored : contents) {
    ResealedContent after = sealer.Reseal(stored);
    if (!after.reply && !after.checkpoint) continue;
    replacements.push_back({std::move(stored), std::move(after)});
  }
  return replacements;
}

absl::Status NothingIsSealed() {
  return MakeError(Reason::kRequestInvalid,
                   "this service has no key ring, so that nothing is sealed; start idempotencyd "
                   "with --keyring");
}

}  // namespace idempotency::internal
