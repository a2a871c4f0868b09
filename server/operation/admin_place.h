#ifndef IDEMPOTENCY_SERVER_OPERATION_ADMIN_PLACE_H_
#define IDEMPOTENCY_SERVER_OPERATION_ADMIN_PLACE_H_

#include <string>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/limits.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/access/access_control.h"
#include "server/access/permission.h"
#include "server/queue/admin_worker.h"

namespace idempotency::internal {

// The namespace that a request names; empty if it has a record id instead.
inline const std::string& NamedNamespace(const v1::GetRequest& request) {
  return request.record_key().namespace_();
}
inline const std::string& NamedNamespace(const v1::ListRequest& request) {
  return request.namespace_();
}
inline const std::string& NamedNamespace(const v1::ResolveRequest& request) {
  return request.record_key().namespace_();
}
inline const std::string& NamedNamespace(const v1::PurgeRequest& request) {
  if (request.has_scope()) return request.scope().namespace_();
  if (request.has_before()) return request.before().namespace_();
  return request.record_key().namespace_();
}
inline const std::string& NamedNamespace(const v1::ResealRequest& request) {
  return request.namespace_();
}
inline const std::string& NamedNamespace(const v1::ListAuditRequest& request) {
  return request.namespace_();
}

// The owner of what a caller takes for itself, and for no namespace.
inline std::string OwnShareOf(Caller& caller) {
  // No namespace has a blank.
  return absl::StrCat("caller ", caller.Name().value_or(std::string()));
}

// The place of a call of `caller` that needs `permission`. It is in the share of the namespace
// that the request names, if the caller may do this there: nobody takes the places of another's
// namespace. Otherwise it is in the caller's own.
template <typename Request>
AdminPlace PlaceOfCall(const Request& request, Caller& caller, Permission permission) {
  AdminPlace place;
  if (permission == Permission::kAdmin) place.kind = AdminPlace::Kind::kAct;
  const std::string& name_space = NamedNamespace(request);
  // A name that is no namespace is refused later.
  if (!name_space.empty() && name_space.size() <= limits::kMaxNamespaceBytes &&
      caller.CheckNamespace(name_space, permission).ok()) {
    place.owner = name_space;
  } else {
    place.owner = OwnShareOf(caller);
  }
  return place;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OPERATION_ADMIN_PLACE_H_
