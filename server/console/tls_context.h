#ifndef IDEMPOTENCY_SERVER_CONSOLE_TLS_CONTEXT_H_
#define IDEMPOTENCY_SERVER_CONSOLE_TLS_CONTEXT_H_

#include <memory>

#include <boost/asio/ssl/context.hpp>

#include "server/console/tls_content.h"

namespace idempotency::internal {

// The TLS context of new connections, made again when the certificates change. Thread-compatible.
class TlsContext {
 public:
  explicit TlsContext(TlsSource source) : source_(std::move(source)) {}

  // Null if there is none that OpenSSL accepts.
  std::shared_ptr<boost::asio::ssl::context> Current();

 private:
  const TlsSource source_;
  std::shared_ptr<const TlsContent> content_;
  std::shared_ptr<boost::asio::ssl::context> context_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONSOLE_TLS_CONTEXT_H_
