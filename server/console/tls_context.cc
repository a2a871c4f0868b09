#include "server/console/tls_context.h"

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>

namespace idempotency::internal {
namespace {

namespace ssl = boost::asio::ssl;

// As gRPC's listener: TLS 1.2 at least, and a certificate of every client if there is an authority.
// Nothing is resumed, so that a caller's certificate is verified for each connection.
std::shared_ptr<ssl::context> ContextFor(const TlsContent& content) {
  boost::system::error_code failed;
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  context->use_certificate_chain(boost::asio::buffer(content.identity), failed);
  if (failed) return nullptr;
  context->use_private_key(boost::asio::buffer(content.identity), ssl::context::pem, failed);
  if (failed || content.client_ca.empty()) return failed ? nullptr : context;
  context->add_certificate_authority(boost::asio::buffer(content.client_ca), failed);
  if (failed) return nullptr;
  context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, failed);
  return failed ? nullptr : context;
}

}  // namespace

std::shared_ptr<ssl::context> TlsContext::Current() {
  std::shared_ptr<const TlsContent> content = source_();
  if (content != content_) {
    // The previous one stays in use for new connections if this one is refused.
    if (std::shared_ptr<ssl::context> made = ContextFor(*content)) context_ = std::move(made);
    content_ = std::move(content);
  }
  return context_;
}

}  // namespace idempotency::internal
