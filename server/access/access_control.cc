#include "server/access/access_control.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

absl::Status ToError(const absl::Status& status) {
  if (status.ok()) return status;
  if (absl::IsUnauthenticated(status)) {
    return MakeError(Reason::kCredentialsInvalid,
                     absl::StrCat(status.message(),
                                  ": present credentials that the "
                                  "configuration of idempotencyd lists"));
  }
  return MakeError(Reason::kAccessDenied, std::string(status.message()));
}

}  // namespace

void AccessControl::Restrict(std::shared_ptr<const AccessPolicy> policy, const Clock& clock) {
  clock_ = &clock;
  Replace(std::move(policy));
}

void AccessControl::Replace(std::shared_ptr<const AccessPolicy> policy) {
  MutexLock lock(mutex_);
  policy_ = std::move(policy);
}

std::shared_ptr<const AccessPolicy> AccessControl::policy() const {
  MutexLock lock(mutex_);
  return policy_;
}

Caller::Caller(const AccessControl& control, Credentials credentials)
    : control_(control),
      credentials_(std::move(credentials)),
      identified_(absl::UnauthenticatedError("not identified")) {}

absl::StatusOr<AccessPolicy::Identified> Caller::Identify() {
  std::shared_ptr<const AccessPolicy> policy = control_.policy();
  const absl::Time now = control_.Now();
  const bool over = identified_.ok() && now >= identified_->valid_until;
  if (policy == policy_ && !over) return identified_;
  policy_ = std::move(policy);
  identified_ = policy_->Identify(credentials_, now);
  renew_at_ = absl::InfinitePast();
  if (identified_.ok()) {
    const absl::Time end = identified_->valid_until;
    renew_at_ = end - std::min(kRenewal, (end - now) / 5);
  }
  return identified_;
}

absl::Status Caller::Check(const RecordKey& key, Permission permission) {
  if (control_.is_open()) return absl::OkStatus();
  MutexLock lock(mutex_);
  const absl::StatusOr<AccessPolicy::Identified> who = Identify();
  return ToError(who.ok() ? policy_->Check(who->identity, key, permission) : who.status());
}

absl::Status Caller::CheckAnywhere(Permission permission) {
  if (control_.is_open()) return absl::OkStatus();
  MutexLock lock(mutex_);
  const absl::StatusOr<AccessPolicy::Identified> who = Identify();
  if (!who.ok()) return ToError(who.status());
  if (policy_->AllowsAnywhere(who->identity, permission)) return absl::OkStatus();
  return ToError(absl::PermissionDeniedError(
      absl::StrCat("identity \"", policy_->NameOf(who->identity), "\" has the permission ",
                   PermissionName(permission), " in no namespace; a rule must grant it")));
}

absl::Status Caller::CheckEverywhere(Permission permission) {
  return CheckNamespace(kEveryNamespace, permission).status();
}

absl::StatusOr<std::string> Caller::CheckNamespace(absl::string_view name_space,
                                                   Permission permission) {
  if (control_.is_open()) return std::string(kLocalCaller);
  MutexLock lock(mutex_);
  const absl::StatusOr<AccessPolicy::Identified> who = Identify();
  if (!who.ok()) return ToError(who.status());
  const std::string& name = policy_->NameOf(who->identity);
  if (policy_->Allows(who->identity, name_space, permission)) return name;
  return ToError(absl::PermissionDeniedError(
      absl::StrCat("identity \"", name, "\" has no permission ", PermissionName(permission),
                   " in namespace \"", name_space, "\"; a rule must grant it")));
}

absl::StatusOr<std::string> Caller::Name() {
  if (control_.is_open()) return std::string(kLocalCaller);
  MutexLock lock(mutex_);
  const absl::StatusOr<AccessPolicy::Identified> who = Identify();
  if (!who.ok()) return ToError(who.status());
  return policy_->NameOf(who->identity);
}

std::vector<std::string> Caller::Named(Permission permission) {
  if (control_.is_open()) return {};
  MutexLock lock(mutex_);
  const absl::StatusOr<AccessPolicy::Identified> who = Identify();
  if (!who.ok()) return {};
  return policy_->Named(who->identity, permission);
}

bool Caller::MustRenew() {
  if (control_.is_open()) return false;
  MutexLock lock(mutex_);
  Identify().IgnoreError();
  return control_.Now() >= renew_at_;
}

}  // namespace idempotency::internal
