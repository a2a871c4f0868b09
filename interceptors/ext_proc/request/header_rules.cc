#include "interceptors/ext_proc/request/header_rules.h"

#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/idempotency_key.h"
#include "interceptors/server/wire/record_metadata.h"

namespace idempotency::internal {
namespace {

// https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter
constexpr std::array<std::string_view, 6> kRepeating = {"x-envoy-retry-on",
                                                        "x-envoy-retry-grpc-on",
                                                        "x-envoy-max-retries",
                                                        "x-envoy-hedge-on-per-try-timeout",
                                                        "x-envoy-retriable-status-codes",
                                                        "x-envoy-upstream-rq-per-try-timeout-ms"};

}  // namespace

absl::Status CheckRequestHeaders(const HeaderList& headers) {
  for (const std::string_view name : kRepeating) {
    if (!headers.Has(name)) continue;
    return InvalidField(name,
                        "must not reach a guarded route, since it can make the proxy send the "
                        "request twice: remove it from callers' requests in the proxy");
  }
  for (const std::string_view name : {":method", ":path"}) {
    if (!headers.OnlyValueOf(name).has_value()) return InvalidField(name, "must occur once");
  }
  for (const std::string_view name : {":authority", "content-type"}) {
    if (headers.ValuesOf(name).size() > 1) return InvalidField(name, "must not occur twice");
  }
  return absl::OkStatus();
}

std::vector<std::string> RemovedFromRequest(const HeaderList& headers) {
  std::vector<std::string> removed;
  for (const std::string_view name :
       {kRecordMetadata, kExpiresMetadata, kReplayedMetadata, kTraceMetadata, kContentMetadata,
        std::string_view("grpc-accept-encoding"), std::string_view("accept-encoding")}) {
    if (headers.Has(name)) removed.emplace_back(name);
  }
  return removed;
}

std::vector<std::string> RemovedFromReply(const HeaderList& headers) {
  std::vector<std::string> removed;
  for (const auto& [name, value] : headers.all()) {
    if (IsRecordMetadata(name)) removed.push_back(name);
  }
  return removed;
}

}  // namespace idempotency::internal
