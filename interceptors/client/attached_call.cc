#include "interceptors/client/attached_call.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "client/downstream/parent_table.h"
#include "core/absl_view.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/idempotency_key.h"

namespace idempotency::internal {
namespace {

const std::string& KeyName() {
  static const auto& name = *std::make_unique<std::string>(kKeyMetadata).release();
  return name;
}

absl::Status Refused(std::string_view method, std::string_view why) {
  return MakeError(Reason::kDownstreamRefused,
                   absl::StrCat("a call to ", AbslView(method), " was not sent: ", AbslView(why)));
}

// Only `own` may be sent of the keys on the call.
absl::Status CheckKeys(std::string_view method, const ParentOperation& parent, std::string_view own,
                       const CallMetadata& metadata) {
  const auto keys = metadata.equal_range(KeyName());
  for (auto entry = keys.first; entry != keys.second; ++entry) {
    const std::string& key = entry->second;
    if (key == own || key == kKeyToCome) continue;
    if (parent.IsOwnKey(key)) {
      return Refused(method,
                     "it carries the key of the handler's own call, which identifies another "
                     "operation. Execution::Attach sets the key");
    }
    return Refused(method, "it carries a key besides the one that Execution::Attach sets");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<ParentOperation>> ResolveAttachedCall(std::string_view method,
                                                                     bool needs_key,
                                                                     CallMetadata& metadata) {
  const auto marks = metadata.equal_range(std::string(kAttachedMetadata));
  if (marks.first == marks.second) return nullptr;
  if (std::next(marks.first) != marks.second) return Refused(method, "it is attached twice");
  const std::string mark = marks.first->second;
  metadata.erase(marks.first);

  const std::size_t slash = mark.find('/');
  std::string key = slash == std::string::npos ? "" : mark.substr(slash + 1);
  std::shared_ptr<ParentOperation> parent = ParentTable::Instance().Find(mark.substr(0, slash));
  if (parent == nullptr) {
    return Refused(method, "Execution::Attach failed for it, or the execution has ended");
  }
  if (absl::Status keys = CheckKeys(method, *parent, key, metadata); !keys.ok()) return keys;
  if (key.empty() && needs_key) {
    absl::StatusOr<std::string> only = parent->KeyOfOnlyCall(method);
    if (!only.ok()) return only.status();
    key = *std::move(only);
  }
  metadata.erase(KeyName());
  // If it was copied from the call that the handler serves, it would identify a grandparent.
  metadata.erase(std::string(kParentMetadata));
  if (!key.empty()) {
    metadata.emplace(KeyName(), std::move(key));
    metadata.emplace(kParentMetadata, parent->announcement());
  }
  return parent;
}

}  // namespace idempotency::internal
