#ifndef IDEMPOTENCY_CTL_ENVOY_PROCESSOR_MESSAGES_H_
#define IDEMPOTENCY_CTL_ENVOY_PROCESSOR_MESSAGES_H_

#include <array>

#include "absl/strings/string_view.h"

namespace idempotency::internal {

// The messages that a proxy has to send to the processor, in every format.

// The filter's name in the chain, which routes use to enable it.
inline constexpr absl::string_view kProcessorFilterName = "envoy.filters.http.ext_proc";

// Guarded requests in progress at one Envoy. Each is a stream to the processor, which has bounds of
// its own: this one is high, so that the processor decides. Envoy's default is 1024.
inline constexpr int kMaxGuardedRequests = 65536;

// Attributes in the first message: the caller's identity, for the scope. The first URI and the
// first DNS name of its certificate.
inline constexpr std::array<absl::string_view, 7> kRequestAttributes = {
    "request.path",
    "request.method",
    "connection.mtls",
    "connection.uri_san_peer_certificate",
    "connection.dns_san_peer_certificate",
    "connection.subject_peer_certificate",
    "connection.sha256_peer_certificate_digest"};

// Attributes with the reply: whether the upstream sent it, or Envoy.
inline constexpr std::array<absl::string_view, 3> kResponseAttributes = {
    "response.code_details", "response.flags", "upstream.request_attempt_count"};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_ENVOY_PROCESSOR_MESSAGES_H_
