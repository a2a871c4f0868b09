#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_HTTP_MESSAGE_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_HTTP_MESSAGE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "interceptors/ext_proc/exchange/header_list.h"

namespace idempotency::internal {

// A request or a response. A value type.
struct HttpMessage {
  // With the pseudo-headers: `:method` and `:path`, or `:status`.
  HeaderList headers;
  std::string body;
  // nullopt: it ends with its body, or with its headers if `headers_only`.
  std::optional<HeaderList> trailers;
  // It ends with its headers.
  bool headers_only = false;
  // A part of a body has arrived, which may be empty.
  bool has_body = false;

  std::size_t bytes() const {
    return headers.bytes() + body.size() + (trailers.has_value() ? trailers->bytes() : 0);
  }
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_HTTP_MESSAGE_H_
