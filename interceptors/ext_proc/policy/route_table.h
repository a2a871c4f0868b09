#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_ROUTE_TABLE_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_ROUTE_TABLE_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "interceptors/ext_proc/policy/described_methods.h"
#include "interceptors/ext_proc/policy/guarded_route.h"
#include "interceptors/ext_proc/policy/path_pattern.h"
#include "interceptors/ext_proc/policy/processor_config.h"

namespace idempotency::internal {

// Finds how a request is guarded. Immutable and thread-safe.
class RouteTable {
 public:
  // INVALID_ARGUMENT lists every fault: of descriptor sets, of patterns, and of policies that the
  // processor cannot keep, each with its method or path.
  static absl::StatusOr<std::unique_ptr<const RouteTable>> Make(const ProcessorConfig& config);

  // The route of a gRPC call. `path` as in `:path`. A method with a descriptor has the policy of
  // the first pattern that matches it, or else the one that its proto declares; any other method
  // the policy of the first pattern that matches. INVALID_ARGUMENT / REQUEST_INVALID if there is
  // none, or if the method streams: nothing passes that no policy covers.
  absl::StatusOr<const GuardedRoute*> ForGrpc(std::string_view path) const;
  // The route of a request of HTTP: the first that matches. `path` may have a query.
  absl::StatusOr<const GuardedRoute*> ForHttp(std::string_view method, std::string_view path) const;

  // Whether the path is one of a gRPC method with a route, or another spelling of one, which some
  // servers accept: other case, a slash at the end, parameters ("/a.B/C;x=1"), a query.
  bool NamesGrpcMethod(std::string_view path) const;
  // The same for HTTP, where the method may have other case, too.
  bool NamesHttpRequest(std::string_view method, std::string_view path) const;

  // Every route whose requests are guarded, by the name that its method or entry has in faults.
  std::vector<std::pair<std::string, const GuardedRoute*>> Guarded() const;

  // The gRPC methods whose requests have fingerprints of another version than in `before`, because
  // they got or lost a descriptor: a retry of a request from before cannot be compared.
  std::vector<std::string> WithOtherFingerprints(const RouteTable& before) const;
  // The gRPC methods, and the requests of HTTP as method and canonical path, whose records have
  // another operation than in `before`: a retry of a request from before runs again.
  std::vector<std::string> WithOtherOperations(const RouteTable& before) const;
  // The same, and patterns of gRPC methods, that refuse keys which were accepted in `before`: a
  // retry of a request from before may be refused, and then gets no reply.
  std::vector<std::string> WithStricterKeys(const RouteTable& before) const;

 private:
  struct HttpEntry {
    std::string method;
    PathPattern pattern;
    GuardedRoute route;
  };
  class Builder;

  RouteTable() = default;

  // The paths of the gRPC methods that have a descriptor, or an entry of their own.
  std::set<std::string> NamedMethods() const;
  // The gRPC methods that either table names, and the requests of HTTP as method and canonical
  // path, for whose route, the one of before, and path this is true. Only those that have keys
  // in both.
  using Change = std::function<bool(const GuardedRoute& now, const GuardedRoute& then,
                                    const std::string& grpc_path)>;
  std::set<std::string> ChangedSince(const RouteTable& before, const Change& change) const;
  // The route of all methods that a pattern matches; nullptr if they have no single one.
  const GuardedRoute* ForPattern(const MethodPattern& pattern) const;

  DescribedMethods described_;
  // By path.
  std::map<std::string, GuardedRoute, std::less<>> methods_;
  std::set<std::string, std::less<>> streaming_;
  std::vector<std::pair<MethodPattern, GuardedRoute>> patterns_;
  std::vector<HttpEntry> http_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_ROUTE_TABLE_H_
