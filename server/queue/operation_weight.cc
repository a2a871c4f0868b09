#include "server/queue/operation_weight.h"

#include <variant>

namespace idempotency::internal {
namespace {

// An operation without its texts: its structures here, in the service and in the store's call,
// rounded up.
constexpr std::size_t kOperationBytes = 1024;
// A label without its texts: its node in a map.
constexpr std::size_t kLabelBytes = 96;

std::size_t WeightOf(const RecordKey& key) {
  return key.name_space.size() + key.scope.size() + key.operation.size() + key.key.size();
}

}  // namespace

std::size_t WeightOf(const ReserveOp& op) {
  std::size_t bytes = kOperationBytes + WeightOf(op.key);
  if (op.parent.has_value()) bytes += WeightOf(*op.parent);
  for (const Fingerprint& fingerprint : op.fingerprints) bytes += fingerprint.digest.size();
  for (const auto& [key, value] : op.labels) bytes += kLabelBytes + key.size() + value.size();
  return bytes;
}

std::size_t WeightOf(const CompleteOp& op) { return kOperationBytes + op.reply.bytes.size(); }

std::size_t WeightOf(const ReleaseOp& op) { return kOperationBytes + op.reason.size(); }

std::size_t WeightOf(const ExtendOp& op) {
  return kOperationBytes + (op.checkpoint.has_value() ? op.checkpoint->size() : 0);
}

std::size_t WeightOf(const GetOp&) { return kOperationBytes; }

std::size_t ReplyBytesIn(const absl::StatusOr<Verdict>& answer) {
  const Replay* const replay = answer.ok() ? std::get_if<Replay>(&*answer) : nullptr;
  return replay == nullptr ? 0 : replay->reply.bytes.size();
}

std::size_t ReplyBytesIn(const absl::StatusOr<Record>& answer) {
  return answer.ok() && answer->reply.has_value() ? answer->reply->bytes.size() : 0;
}

}  // namespace idempotency::internal
