#ifndef IDEMPOTENCY_SERVER_CONSOLE_TLS_CONTENT_H_
#define IDEMPOTENCY_SERVER_CONSOLE_TLS_CONTENT_H_

#include <functional>
#include <memory>
#include <string>

namespace idempotency::internal {

// The content of a listener's TLS files, checked. A value type.
struct TlsContent {
  // PEM: the key, then the certificate and its chain.
  std::string identity;
  // PEM of the authorities of clients' certificates; empty: clients present none.
  std::string client_ca;

  bool operator==(const TlsContent& other) const {
    return identity == other.identity && client_ca == other.client_ca;
  }
};

// The content that new connections get. Thread-safe.
using TlsSource = std::function<std::shared_ptr<const TlsContent>()>;

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONSOLE_TLS_CONTENT_H_
