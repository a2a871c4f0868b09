#ifndef IDEMPOTENCY_CLIENT_DOWNSTREAM_PARENT_OPERATION_H_
#define IDEMPOTENCY_CLIENT_DOWNSTREAM_PARENT_OPERATION_H_

#include <grpcpp/client_context.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "core/pass_key.h"
#include "grpc_idempotency/record_key.h"

namespace idempotency::internal {

// The entry that an attached call carries up to the client interceptor, which
// removes it: "ID" of its parent, or "ID/KEY" if it has its key.
inline constexpr std::string_view kAttachedMetadata = "idempotency-attached";
// A placeholder for the key until the client interceptor has the method. On a
// channel without the interceptor it is sent, and no guard accepts it: a
// refused call is better than one that is not recognised when it is repeated.
inline constexpr std::string_view kKeyToCome = ",attached-without-the-client-interceptor";

// A guarded execution for the calls that it makes: their keys, and the data
// about it that they carry. The interface between the guard and the client
// interceptor of one process, which do not depend on each other. Thread-safe.
class ParentOperation final : public std::enable_shared_from_this<ParentOperation> {
 public:
  struct Facts {
    // Secret of the derivation: see GuardOptions::downstream_secret.
    std::string secret;
    // Its `key` is never passed on.
    RecordKey record_key;
    RecordId record_id;
    // InfinitePast if the service did not return it.
    absl::Time created_at;
    absl::Time expires_at;
    // The store may lose the record, and create it again at another time: the keys of its calls
    // would change.
    bool may_be_lost = false;
  };

  static std::shared_ptr<ParentOperation> Make(Facts facts);
  ~ParentOperation();

  // The key of its call with this label: client/downstream/downstream_key.h.
  // DOWNSTREAM_REFUSED for a label that is empty or over 255 bytes, if the record may be lost, or
  // if idempotencyd is too old to return a record's creation time.
  absl::StatusOr<std::string> KeyFor(std::string_view label) const;

  // Attaches the call of `context` to this operation. With a label it gets its
  // key here. Fails as KeyFor does; the call then fails, too.
  absl::Status Attach(grpc::ClientContext& context, std::string_view label);
  // Without a label the client interceptor gives it its method's key.
  absl::Status Attach(grpc::ClientContext& context);

  // For the client interceptor: the key of the one call to `method` that has no
  // label. DOWNSTREAM_REFUSED for a second one: a later attempt could not
  // distinguish the two.
  absl::StatusOr<std::string> KeyOfOnlyCall(std::string_view method);
  // True for the key that this operation itself was called with, in any form
  // that metadata allows.
  bool IsOwnKey(std::string_view value) const;
  // The value of `idempotency-parent-bin`: a serialised v1.RecordKey, with the
  // record id in the place of the key.
  const std::string& announcement() const { return announcement_; }
  absl::Time expires_at() const { return facts_.expires_at; }

  // For Make() alone.
  ParentOperation(PassKey<ParentOperation> key, Facts facts);

 private:
  absl::StatusOr<std::string> Derive(std::string_view method, std::string_view label) const;
  // Adds the metadata of every attached call to `context`, or marks it as a call that must not be
  // sent. Returns the status of `key`.
  absl::Status Mark(grpc::ClientContext& context, const absl::StatusOr<std::string>& key);

  const Facts facts_;
  const std::string announcement_;
  // Its name in the table: unguessable, since metadata copied from an incoming
  // call must not attach to any operation.
  const std::string id_;

  Mutex mutex_;
  bool listed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<std::string> called_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_DOWNSTREAM_PARENT_OPERATION_H_
