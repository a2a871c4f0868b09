#include "client/downstream/parent_operation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "client/downstream/downstream_key.h"
#include "client/downstream/parent_table.h"
#include "core/absl_view.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

std::string Announcement(const RecordKey& record_key, const RecordId& record_id) {
  v1::RecordKey parent = ToProto(record_key);
  parent.set_key(record_id.ToString());
  return parent.SerializeAsString();
}

}  // namespace

std::shared_ptr<ParentOperation> ParentOperation::Make(Facts facts) {
  return std::make_shared<ParentOperation>(PassKey<ParentOperation>(), std::move(facts));
}

ParentOperation::ParentOperation(PassKey<ParentOperation> /*key*/, Facts facts)
    : facts_(std::move(facts)),
      announcement_(Announcement(facts_.record_key, facts_.record_id)),
      id_(Uuid::Random().ToString()) {}

ParentOperation::~ParentOperation() { ParentTable::Instance().Leave(id_); }

absl::StatusOr<std::string> ParentOperation::Derive(std::string_view method,
                                                    std::string_view label) const {
  if (facts_.may_be_lost) {
    return MakeError(Reason::kDownstreamRefused,
                     "the reservation of this execution is relaxed: after a crash of the store "
                     "another attempt would make the same call with another key. Remove "
                     "relaxed_reservation from the policy of a method that makes calls");
  }
  if (facts_.created_at == absl::InfinitePast()) {
    return MakeError(Reason::kDownstreamRefused,
                     "idempotencyd does not return the record's creation time, which downstream "
                     "keys need: run a newer idempotencyd");
  }
  return DownstreamKey(facts_.secret, {facts_.created_at, facts_.record_id, method, label});
}

absl::StatusOr<std::string> ParentOperation::KeyFor(std::string_view label) const {
  if (label.empty() || label.size() > limits::kMaxDownstreamLabelBytes) {
    return MakeError(Reason::kDownstreamRefused,
                     absl::StrCat("the label of a downstream call must be 1-",
                                  limits::kMaxDownstreamLabelBytes, " bytes"));
  }
  return Derive(/*method=*/"", label);
}

absl::Status ParentOperation::Attach(grpc::ClientContext& context, std::string_view label) {
  const absl::StatusOr<std::string> key = KeyFor(label);
  // Without a key a caller that ignores the status would get one from the
  // client interceptor, and a different one on the next attempt.
  context.AddMetadata(std::string(kKeyMetadata), key.ok() ? *key : std::string(kKeyToCome));
  return Mark(context, key);
}

absl::Status ParentOperation::Attach(grpc::ClientContext& context) {
  context.AddMetadata(std::string(kKeyMetadata), std::string(kKeyToCome));
  absl::StatusOr<std::string> key = Derive("", "");
  // The client interceptor has the key's method.
  if (key.ok()) key->clear();
  return Mark(context, key);
}

absl::Status ParentOperation::Mark(grpc::ClientContext& context,
                                   const absl::StatusOr<std::string>& key) {
  if (!key.ok()) {
    ParentTable::Instance().NoteFailedAttach();
    context.AddMetadata(std::string(kAttachedMetadata), "failed");
    return key.status();
  }
  {
    MutexLock lock(mutex_);
    if (!listed_) ParentTable::Instance().Enter(id_, weak_from_this());
    listed_ = true;
  }
  context.AddMetadata(std::string(kAttachedMetadata),
                      key->empty() ? id_ : absl::StrCat(id_, "/", *key));
  context.AddMetadata(std::string(kParentMetadata), announcement_);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ParentOperation::KeyOfOnlyCall(std::string_view method) {
  absl::StatusOr<std::string> key = Derive(method, /*label=*/"");
  if (!key.ok()) return key;
  MutexLock lock(mutex_);
  if (!called_.insert(std::string(method)).second) {
    return MakeError(
        Reason::kDownstreamRefused,
        absl::StrCat(
            "a second call to ", AbslView(method),
            " has no label: a later attempt of the handler could not distinguish the calls. Attach "
            "each call with its own label; a repeated call keeps its label"));
  }
  return key;
}

bool ParentOperation::IsOwnKey(std::string_view value) const {
  const auto key = ParseIdempotencyKey(absl::MakeConstSpan(&value, 1));
  return key.ok() && *key == facts_.record_key.key;
}

}  // namespace idempotency::internal
