#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_PROXY_CONTEXT_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_PROXY_CONTEXT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "envoy/service/ext_proc/v3/external_processor.pb.h"
#include "google/protobuf/struct.pb.h"

namespace idempotency::internal {

// Envoy's own statements about an exchange, which callers cannot forge: the attributes that its
// configuration requests, and the metadata of its filters. A value type.
class ProxyContext {
 public:
  // Adds those of one message.
  void Add(const envoy::service::ext_proc::v3::ProcessingRequest& message);

  // As memory is counted.
  std::size_t bytes() const { return bytes_; }

  // False if Envoy states that it sends bodies in another way than FULL_DUPLEX_STREAMED.
  bool full_duplex() const { return full_duplex_; }

  // The attribute as text; nullopt if Envoy did not send it. Numbers and booleans are written as
  // "1" and "true".
  std::optional<std::string> Attribute(std::string_view name) const;
  // The text at `path` in the metadata of `filter`; nullopt unless it is a string.
  std::optional<std::string> Metadata(std::string_view filter,
                                      absl::Span<const std::string> path) const;

 private:
  bool full_duplex_ = true;
  std::size_t bytes_ = 0;
  google::protobuf::Struct attributes_;
  google::protobuf::Map<std::string, google::protobuf::Struct> metadata_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_PROXY_CONTEXT_H_
