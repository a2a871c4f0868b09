#ifndef IDEMPOTENCY_SERVER_ACCESS_ACCESS_CONTROL_H_
#define IDEMPOTENCY_SERVER_ACCESS_ACCESS_CONTROL_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "grpc_idempotency/record_key.h"
#include "server/access/access_policy.h"
#include "server/access/credentials.h"
#include "server/access/permission.h"

namespace idempotency::internal {

// The policy that applies now. Thread-safe.
class AccessControl {
 public:
  // Every caller may do everything: the service of a program for itself, or a daemon that only
  // its own machine reaches.
  AccessControl() = default;
  AccessControl(const AccessControl&) = delete;
  AccessControl& operator=(const AccessControl&) = delete;

  // Callers may do what the policy permits. Before the first call. `clock` outlives this.
  void Restrict(std::shared_ptr<const AccessPolicy> policy, const Clock& clock)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_open() const { return clock_ == nullptr; }
  // Applies to every operation from here on, also of callers that are connected.
  void Replace(std::shared_ptr<const AccessPolicy> policy) ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<const AccessPolicy> policy() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Not for an open one.
  absl::Time Now() const { return clock_->Now(); }

 private:
  // nullptr: open.
  const Clock* clock_ = nullptr;
  mutable Mutex mutex_;
  std::shared_ptr<const AccessPolicy> policy_ ABSL_GUARDED_BY(mutex_);
};

// The caller of a unary call, or of a stream. Its credentials are those of the call's beginning;
// its identity and permissions are those of the policy that applies at each operation.
// Thread-safe.
class Caller {
 public:
  // A session is renewed this long before its caller's token expires, or by a fifth of the
  // token's remaining time if that is less, so that no operation meets an expired one.
  static constexpr absl::Duration kRenewal = absl::Minutes(1);

  // `control` outlives it.
  Caller(const AccessControl& control, const grpc::ServerContextBase& context)
      : Caller(control, control.is_open() ? Credentials() : CredentialsOf(context)) {}
  Caller(const AccessControl& control, Credentials credentials);

  // OK if the caller may do this to the record. Otherwise
  //   UNAUTHENTICATED / CREDENTIALS_INVALID     its identity is not known
  //   PERMISSION_DENIED / ACCESS_DENIED         no rule grants it
  // It does not depend on whether the record exists.
  absl::Status Check(const RecordKey& key, Permission permission) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for a record whose namespace is not known yet: whether there is any namespace where
  // the caller may do this.
  absl::Status CheckAnywhere(Permission permission) ABSL_LOCKS_EXCLUDED(mutex_);
  // For all namespaces together.
  absl::Status CheckEverywhere(Permission permission) ABSL_LOCKS_EXCLUDED(mutex_);
  // For a namespace as a whole. Returns the caller's name.
  absl::StatusOr<std::string> CheckNamespace(absl::string_view name_space, Permission permission)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The caller's name in the audit log. UNAUTHENTICATED / CREDENTIALS_INVALID.
  absl::StatusOr<std::string> Name() ABSL_LOCKS_EXCLUDED(mutex_);
  // gRPC's text of its address; empty if that is not known.
  const std::string& peer() const { return credentials_.peer; }
  // The namespaces that rules name where the caller may do this, by name. Not those of "*"; of an
  // open service none.
  std::vector<std::string> Named(Permission permission) ABSL_LOCKS_EXCLUDED(mutex_);

  // True when a stream must be opened again, with newer credentials.
  bool MustRenew() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<AccessPolicy::Identified> Identify() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AccessControl& control_;
  const Credentials credentials_;
  Mutex mutex_;
  // The policy that `identified_` was determined with.
  std::shared_ptr<const AccessPolicy> policy_ ABSL_GUARDED_BY(mutex_);
  absl::StatusOr<AccessPolicy::Identified> identified_ ABSL_GUARDED_BY(mutex_);
  absl::Time renew_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

// The name of callers of an open service, in the audit log.
inline constexpr absl::string_view kLocalCaller = "local";

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_ACCESS_ACCESS_CONTROL_H_
