#include "server/store/redis/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace idempotency::internal {
namespace {

// A machine that is gone is noticed by the command's timeout; these free connections that are
// idle meanwhile.
constexpr int kKeepaliveIdleSeconds = 10;
constexpr int kKeepaliveIntervalSeconds = 5;
constexpr int kKeepaliveCount = 3;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

absl::Status Failed(const RedisAddress& address, absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(address.ToString(), ": ", what));
}

class PlainSocket final : public RedisSocket {
 public:
  explicit PlainSocket(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

  int descriptor() const override { return descriptor_.number(); }
  Progress Write(std::string_view bytes) override {
    return Of(send(descriptor_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              Outcome::kWantsWrite);
  }
  Progress Read(char* into, std::size_t size) override {
    return Of(recv(descriptor_.number(), into, size, 0), Outcome::kWantsRead);
  }

 private:
  static Progress Of(ssize_t moved, Outcome blocked) {
    if (moved > 0) return {Outcome::kMoved, static_cast<std::size_t>(moved)};
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      return {blocked, 0};
    }
    return {Outcome::kClosed, 0};
  }

  const Descriptor descriptor_;
};

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;
using Ssl = std::unique_ptr<SSL, FreeSsl>;

// As OpenSSL's own, whose write to a connection that the other end has closed is a SIGPIPE: it
// would end a program that embeds the service and does not ignore that signal.
int SendWithoutSignal(BIO* bio, const char* bytes, int size) {
  int descriptor = -1;
  BIO_get_fd(bio, &descriptor);
  BIO_clear_retry_flags(bio);
  const auto sent =
      static_cast<int>(send(descriptor, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL));
  if (sent <= 0 && BIO_sock_should_retry(sent) != 0) BIO_set_retry_write(bio);
  return sent;
}

// nullptr without memory.
const BIO_METHOD* SocketWithoutSignal() {
  static const BIO_METHOD* const method = [] {
    const BIO_METHOD* const of_openssl = BIO_s_socket();
    BIO_METHOD* const made = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE");
    if (made == nullptr) return made;
    BIO_meth_set_write(made, &SendWithoutSignal);
    BIO_meth_set_read(made, BIO_meth_get_read(of_openssl));
    BIO_meth_set_puts(made, BIO_meth_get_puts(of_openssl));
    BIO_meth_set_ctrl(made, BIO_meth_get_ctrl(of_openssl));
    BIO_meth_set_create(made, BIO_meth_get_create(of_openssl));
    BIO_meth_set_destroy(made, BIO_meth_get_destroy(of_openssl));
    return made;
  }();
  return method;
}

// `ssl` reads and writes `descriptor`, which the caller closes.
bool SetDescriptor(SSL* ssl, int descriptor) {
  BIO* const bio = SocketWithoutSignal() == nullptr ? nullptr : BIO_new(SocketWithoutSignal());
  if (bio == nullptr) return false;
  BIO_set_fd(bio, descriptor, BIO_NOCLOSE);
  SSL_set_bio(ssl, bio, bio);
  return true;
}

std::string SslReason() {
  std::array<char, 256> text{};
  const unsigned long code = ERR_peek_last_error();  // NOLINT(google-runtime-int): OpenSSL's type
  if (code == 0) return "the connection was closed";
  ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  return text.data();
}

class TlsSocket final : public RedisSocket {
 public:
  TlsSocket(Descriptor descriptor, Ssl ssl)
      : descriptor_(std::move(descriptor)), ssl_(std::move(ssl)) {}

  int descriptor() const override { return descriptor_.number(); }
  Progress Write(std::string_view bytes) override {
    ERR_clear_error();
    std::size_t moved = 0;
    return Of(SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &moved), moved);
  }
  Progress Read(char* into, std::size_t size) override {
    ERR_clear_error();
    std::size_t moved = 0;
    return Of(SSL_read_ex(ssl_.get(), into, size, &moved), moved);
  }

  absl::Status Handshake(const RedisAddress& address, TimePoint deadline) {
    while (true) {
      ERR_clear_error();
      const int done = SSL_connect(ssl_.get());
      if (done == 1) return absl::OkStatus();
      const int error = SSL_get_error(ssl_.get(), done);
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        const long verified = SSL_get_verify_result(ssl_.get());  // NOLINT(google-runtime-int)
        return Failed(
            address,
            absl::StrCat("TLS: ", verified == X509_V_OK ? SslReason()
                                                        : X509_verify_cert_error_string(verified)));
      }
      const short events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
      if (!WaitFor(descriptor_.number(), events, deadline)) {
        return Failed(address, "no TLS handshake in time");
      }
    }
  }

 private:
  Progress Of(int done, std::size_t moved) {
    if (done == 1) return {Outcome::kMoved, moved};
    switch (SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ:
        return {Outcome::kWantsRead, 0};
      case SSL_ERROR_WANT_WRITE:
        return {Outcome::kWantsWrite, 0};
      default:
        return {Outcome::kClosed, 0};
    }
  }

  const Descriptor descriptor_;
  const Ssl ssl_;
};

absl::Status SetUp(SSL_CTX* context, const RedisOptions& options) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  // A write that is repeated may be of a longer buffer, at another address.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  const bool trusts = options.tls_ca.empty() ? SSL_CTX_set_default_verify_paths(context) == 1
                                             : SSL_CTX_load_verify_locations(
                                                   context, options.tls_ca.c_str(), nullptr) == 1;
  if (!trusts) return absl::UnavailableError(absl::StrCat("tls_ca: ", SslReason()));
  if (options.tls_certificate.empty()) return absl::OkStatus();
  if (SSL_CTX_use_certificate_chain_file(context, options.tls_certificate.c_str()) != 1) {
    return absl::UnavailableError(absl::StrCat("tls_cert: ", SslReason()));
  }
  if (SSL_CTX_use_PrivateKey_file(context, options.tls_key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return absl::UnavailableError(absl::StrCat("tls_key: ", SslReason()));
  }
  return absl::OkStatus();
}

// The certificate must be of this host.
bool Expect(SSL* ssl, const std::string& host) {
  X509_VERIFY_PARAM* const parameters = SSL_get0_param(ssl);
  if (X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str()) == 1) return true;
  ERR_clear_error();
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return SSL_set_tlsext_host_name(ssl, host.c_str()) == 1 && SSL_set1_host(ssl, host.c_str()) == 1;
}

absl::StatusOr<std::unique_ptr<RedisSocket>> StartTls(Descriptor descriptor,
                                                      const RedisAddress& address,
                                                      const RedisOptions& options,
                                                      RedisSocket::TimePoint deadline) {
  const Context context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return Failed(address, SslReason());
  if (absl::Status set = SetUp(context.get(), options); !set.ok()) return set;
  Ssl ssl(SSL_new(context.get()));
  if (ssl == nullptr || !Expect(ssl.get(), address.host) ||
      !SetDescriptor(ssl.get(), descriptor.number())) {
    return Failed(address, SslReason());
  }
  auto socket = std::make_unique<TlsSocket>(std::move(descriptor), std::move(ssl));
  if (absl::Status shaken = socket->Handshake(address, deadline); !shaken.ok()) return shaken;
  return socket;
}

void SetSocketOptions(int descriptor) {
  const auto set = [descriptor](int level, int name, int value) {
    setsockopt(descriptor, level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveCount);
}

absl::StatusOr<Descriptor> ConnectTo(const addrinfo& to, RedisSocket::TimePoint deadline) {
  Descriptor descriptor(
      socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to.ai_protocol));
  if (descriptor.number() < 0) return absl::UnavailableError(std::strerror(errno));
  if (connect(descriptor.number(), to.ai_addr, to.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return absl::UnavailableError(std::strerror(errno));
    if (!WaitFor(descriptor.number(), POLLOUT, deadline)) {
      return absl::UnavailableError("no connection in time");
    }
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(descriptor.number(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return absl::UnavailableError(std::strerror(error));
  }
  SetSocketOptions(descriptor.number());
  return descriptor;
}

absl::StatusOr<Descriptor> ConnectToAny(const RedisAddress& address,
                                        RedisSocket::TimePoint deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int resolved =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (resolved != 0) return Failed(address, gai_strerror(resolved));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  absl::Status failure = absl::UnavailableError("has no address");
  int left = 0;
  for (const addrinfo* to = addresses.get(); to != nullptr; to = to->ai_next) ++left;
  for (const addrinfo* to = addresses.get(); to != nullptr; to = to->ai_next, --left) {
    absl::StatusOr<Descriptor> connected =
        ConnectTo(*to, EndOfAttempt(std::chrono::steady_clock::now(), deadline, left));
    if (connected.ok()) return connected;
    failure = connected.status();
  }
  return Failed(address, failure.message());
}

}  // namespace

RedisSocket::TimePoint EndOfAttempt(RedisSocket::TimePoint now, RedisSocket::TimePoint deadline,
                                    int addresses) {
  return now + (deadline - now) / addresses;
}

int MillisecondsUntil(RedisSocket::TimePoint deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(
      std::clamp<std::int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

bool WaitFor(int descriptor, short events, RedisSocket::TimePoint deadline) {
  pollfd waiting{descriptor, events, 0};
  while (true) {
    const int left = MillisecondsUntil(deadline);
    const int ready = poll(&waiting, 1, left);
    if (ready > 0) return true;
    if (ready == 0 && left == 0) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

absl::StatusOr<std::unique_ptr<RedisSocket>> RedisSocket::Connect(const RedisAddress& address,
                                                                  const RedisOptions& options,
                                                                  TimePoint deadline) {
  absl::StatusOr<Descriptor> connected = ConnectToAny(address, deadline);
  if (!connected.ok()) return connected.status();
  if (options.tls) return StartTls(*std::move(connected), address, options, deadline);
  return std::make_unique<PlainSocket>(*std::move(connected));
}

}  // namespace idempotency::internal
