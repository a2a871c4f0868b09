#include "interceptors/server/request/parent_metadata.h"

#include <iterator>

#include "core/absl_view.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {
namespace {

// Four fields, each with a tag and a length of two bytes at most.
constexpr std::size_t kMaxBytes = limits::kMaxNamespaceBytes + limits::kMaxScopeBytes +
                                  limits::kMaxOperationBytes + limits::kMaxKeyBytes + 4 * 3;

bool IsParent(const v1::RecordKey& parent) {
  return Uuid::Parse(parent.key()).has_value() && ValidateRecordKey(FromProto(parent)).ok();
}

}  // namespace

std::optional<v1::RecordKey> ParentFrom(std::string_view bytes) {
  v1::RecordKey parent;
  if (bytes.size() > kMaxBytes ||
      !parent.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !IsParent(parent)) {
    return std::nullopt;
  }
  parent.DiscardUnknownFields();
  return parent;
}

std::optional<v1::RecordKey> ParentOf(const grpc::ServerContextBase& context, GuardLog& log) {
  const auto entries =
      context.client_metadata().equal_range({kParentMetadata.data(), kParentMetadata.size()});
  if (entries.first == entries.second) return std::nullopt;
  if (std::next(entries.first) == entries.second) {
    const grpc::string_ref bytes = entries.first->second;
    if (auto parent = ParentFrom({bytes.data(), bytes.size()}); parent.has_value()) return parent;
  }
  log.Warn(LogEvent::kInvalidParent, "a call's ", AbslView(kParentMetadata),
           " names no record, or several; its parent is not recorded");
  return std::nullopt;
}

}  // namespace idempotency::internal
