#include "server/console/tls_context.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>

namespace idempotency::internal {
namespace {

namespace ssl = boost::asio::ssl;

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

// The certificates of a client are of one of these authorities; their names are sent, so that a
// browser offers the fitting ones. False if there is none.
bool AddAuthorities(const std::string& pem, SSL_CTX* context) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  int added = 0;
  while (true) {
    const Certificate authority(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr),
                                &X509_free);
    if (authority == nullptr) break;
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1) return false;
    if (SSL_CTX_add_client_CA(context, authority.get()) != 1) return false;
    ++added;
  }
  // The end of the text.
  ERR_clear_error();
  return added > 0;
}

// As gRPC's listener: TLS 1.2 at least, and a certificate of every client if there is an authority.
// Nothing is resumed, so that a caller's certificate is verified for each connection.
std::shared_ptr<ssl::context> ContextFor(const TlsContent& content) {
  boost::system::error_code failed;
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_num_tickets(native, 0);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  context->use_certificate_chain(boost::asio::buffer(content.identity), failed);
  if (failed) return nullptr;
  context->use_private_key(boost::asio::buffer(content.identity), ssl::context::pem, failed);
  if (failed || content.client_ca.empty()) return failed ? nullptr : context;
  if (!AddAuthorities(content.client_ca, native)) return nullptr;
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
