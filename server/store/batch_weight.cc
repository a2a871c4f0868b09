#include "server/store/batch_weight.h"

#include <variant>

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

void BatchWeight::Add(const absl::StatusOr<Verdict>& answer) {
  const Replay* const replay = answer.ok() ? std::get_if<Replay>(&*answer) : nullptr;
  if (replay != nullptr) Add(replay->reply.bytes.size());
}

void BatchWeight::Add(const absl::StatusOr<Record>& answer) {
  if (answer.ok() && answer->reply.has_value()) Add(answer->reply->bytes.size());
}

absl::Status BatchWeight::NextCall() {
  return MakeError(Reason::kOverloaded,
                   "Too many large replies were requested at once. Nothing was done; try again.");
}

}  // namespace idempotency::internal
