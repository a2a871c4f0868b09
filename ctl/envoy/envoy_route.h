#ifndef IDEMPOTENCY_CTL_ENVOY_ENVOY_ROUTE_H_
#define IDEMPOTENCY_CTL_ENVOY_ENVOY_ROUTE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {

// The requests of one guarded operation, as a proxy finds them.
struct EnvoyRoute {
  // The path as the command line or a proto has it, for comments and names.
  std::string text;
  // The path without its query: exactly this, or, if `is_regex`, a regular expression (RE2) for
  // all of it.
  std::string path;
  bool is_regex = false;
  // For an exact path of a guarded gRPC method: the regular expression of its other spellings.
  std::string spellings;
  // The methods of HTTP; empty: all, as for gRPC, where there is only POST.
  std::vector<std::string> http_methods;
};

// A gRPC method: `package.Service/Method`, in which each * stands for any characters except /. It
// also finds the path in another case and with a slash at its end: ASP.NET Core serves these too,
// so a request must not bypass the filter by them. The processor refuses it. INVALID_ARGUMENT: what
// to write instead.
absl::StatusOr<EnvoyRoute> RouteOfMethod(absl::string_view pattern);

// A route of HTTP: `POST /v1/payments/{id}` or `POST|PATCH /v1/payments/*`, in which {name} and *
// stand for one segment. It also finds the path in another case and with a slash at its end,
// because many frameworks do, and a method of HTTP in another case, because Django and Flask do: a
// request that the service understands must not bypass the filter. INVALID_ARGUMENT: what to write
// instead.
absl::StatusOr<EnvoyRoute> RouteOfHttp(absl::string_view pattern);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_ENVOY_ENVOY_ROUTE_H_
