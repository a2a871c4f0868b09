// The HTTP server against clients of every kind.
#include "server/console/http_listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "core/testing/answers.h"
#include "server/limits.h"
#include "tests/support/certificate_authority.h"
#include "tests/support/raw_connection.h"

namespace idempotency::internal {
namespace {

using ::testing::AllOf;
using testing::CertificateAuthority;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RawConnection;
using ::testing::StartsWith;

constexpr std::size_t kAll = 1 << 30;
constexpr char kGet[] = "GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";

// A socket that listens on a free port of this machine; its address.
std::pair<FileDescriptor, std::string> Listening() {
  FileDescriptor made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(made.get(), generic, size), 0);
  EXPECT_EQ(listen(made.get(), 64), 0);
  EXPECT_EQ(getsockname(made.get(), generic, &size), 0);
  return {std::move(made), absl::StrCat("127.0.0.1:", ntohs(address.sin_port))};
}

// A client with TLS, for one request.
class TlsClient {
 public:
  // `identity` may be empty: no certificate.
  TlsClient(const std::string& address, const std::string& root,
            const CertificateAuthority::Identity& identity, int version = TLS1_3_VERSION)
      : context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free), bio_(nullptr, &BIO_free_all) {
    SSL_CTX_set_min_proto_version(context_.get(), version);
    SSL_CTX_set_max_proto_version(context_.get(), version);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), Certificate(root).get());
    if (!identity.key.empty()) {
      SSL_CTX_use_certificate(context_.get(), Certificate(identity.certificate).get());
      const std::unique_ptr<BIO, decltype(&BIO_free)> text(
          BIO_new_mem_buf(identity.key.data(), static_cast<int>(identity.key.size())), &BIO_free);
      const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
          PEM_read_bio_PrivateKey(text.get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
      SSL_CTX_use_PrivateKey(context_.get(), key.get());
    }
    bio_.reset(BIO_new_ssl_connect(context_.get()));
    BIO_set_conn_hostname(bio_.get(), address.c_str());
    connected_ = BIO_do_connect(bio_.get()) == 1;
  }

  bool connected() const { return connected_; }
  // Up to the end of the connection; "" if there is no answer.
  std::string Exchange(const std::string& request) {
    if (!connected_) return "";
    BIO_write(bio_.get(), request.data(), static_cast<int>(request.size()));
    std::string answer;
    std::string part(4096, '\0');
    int got = 0;
    while ((got = BIO_read(bio_.get(), part.data(), static_cast<int>(part.size()))) > 0) {
      answer.append(part, 0, static_cast<std::size_t>(got));
    }
    return answer;
  }
  // The session, of which a later connection could be a continuation.
  SSL* ssl() {
    SSL* ssl = nullptr;
    BIO_get_ssl(bio_.get(), &ssl);
    return ssl;
  }

 private:
  using OwnCertificate = std::unique_ptr<X509, decltype(&X509_free)>;

  static OwnCertificate Certificate(const std::string& pem) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> text(
        BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
    return {PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr), &X509_free};
  }

  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<BIO, decltype(&BIO_free_all)> bio_;
  bool connected_ = false;
};

class HttpListenerTest : public ::testing::Test {
 protected:
  void Start(const HttpListener::Limits& limits = {}, TlsSource tls = nullptr) {
    auto [socket, address] = Listening();
    std::vector<FileDescriptor> sockets;
    sockets.push_back(std::move(socket));
    listener_ = HttpListener::Start(
                    sockets, std::move(tls),
                    [this](HttpRequest request, HttpReply reply) {
                      Handle(std::move(request), std::move(reply));
                    },
                    limits)
                    .value();
    address_ = address;
  }
  void Handle(HttpRequest request, HttpReply reply) {
    if (request.target == "/held") {
      requests_.Add(std::move(request));
      return held_.Add(std::move(reply));
    }
    HttpResponse response;
    response.content_type = "text/plain";
    response.body = request.target == "/large"
                        ? std::string(64 << 20, 'x')
                        : absl::StrCat(request.method, " ", request.target, " ", request.body);
    requests_.Add(std::move(request));
    reply(std::move(response));
  }
  std::string Exchange(const std::string& request) {
    RawConnection connection(address_);
    return connection.Send(request) ? connection.Receive(kAll) : "";
  }
  static std::string Call(const std::string& headers = "", const std::string& body = "{}") {
    return absl::StrCat("POST /api/X HTTP/1.1\r\nHost: here\r\nContent-Length: ", body.size(),
                        "\r\n", headers, "\r\n", body);
  }
  static HttpListener::Limits Quick() {
    HttpListener::Limits limits;
    limits.timeout = absl::Milliseconds(300);
    limits.answer_time = absl::Milliseconds(300);
    return limits;
  }

  Answers<HttpRequest> requests_;
  Answers<HttpReply> held_;
  std::string address_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, AnswersRequestsOneAfterTheOther) {
  Start();
  const std::string answers = Exchange("GET /first HTTP/1.1\r\nHost: here\r\n\r\n" + Call() +
                                       "HEAD /third HTTP/1.1\r\nHost: here\r\n\r\n" + kGet);
  const std::size_t first = answers.find("GET /first ");
  const std::size_t second = answers.find("POST /api/X {}");
  const std::size_t last = answers.find("GET / ", second);
  EXPECT_LT(first, second);
  EXPECT_LT(second, last);
  EXPECT_NE(last, std::string::npos);
  // With a length and without a body.
  EXPECT_THAT(answers, HasSubstr("Content-Length: 12\r\n"));
  EXPECT_THAT(answers, Not(HasSubstr("HEAD /third")));
  EXPECT_THAT(Exchange("GET /old HTTP/1.0\r\n\r\n"), EndsWith("GET /old "));
  EXPECT_THAT(Exchange("POST /chunks HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n"
                       "Connection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
              EndsWith("POST /chunks abc"));
  EXPECT_THAT(Exchange("GET /ws HTTP/1.1\r\nHost: here\r\nConnection: Upgrade, close\r\n"
                       "Upgrade: websocket\r\n\r\n"),
              StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpListenerTest, EveryResponseHasTheSafeguards) {
  Start();
  const std::string twice = Call("Host: there\r\n");
  for (const std::string& request :
       {std::string(kGet), std::string("nonsense\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01", 6), twice, Call("Origin: a\r\nOrigin: b\r\n"),
        Call("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"),
        Call("X-Large: " + std::string(limits::kMaxConsoleHeaderBytes, 'x') + "\r\n"),
        Call("", std::string(limits::kMaxConsoleBodyBytes + 1, 'x'))}) {
    const std::string answer = Exchange(request);
    EXPECT_THAT(answer, AllOf(HasSubstr("Content-Security-Policy: default-src 'none';"),
                              HasSubstr("X-Content-Type-Options: nosniff"),
                              HasSubstr("X-Frame-Options: DENY"),
                              HasSubstr("Cross-Origin-Resource-Policy: same-origin"),
                              HasSubstr("Cache-Control: no-store"), HasSubstr("Connection: close")))
        << request.substr(0, 60);
  }
}

TEST_F(HttpListenerTest, TooLargeRequestsAreRefusedAndReachNoHandler) {
  Start();
  EXPECT_THAT(
      Exchange(Call("X-Large: " + std::string(limits::kMaxConsoleHeaderBytes, 'x') + "\r\n")),
      StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Exchange(Call("", std::string(limits::kMaxConsoleBodyBytes + 1, 'x'))),
              StartsWith("HTTP/1.1 413 "));
  std::string chunks = "POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 80; ++i) absl::StrAppend(&chunks, "400\r\n", std::string(1024, 'x'), "\r\n");
  EXPECT_THAT(Exchange(chunks), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(
      Exchange("GET " + std::string(limits::kMaxConsoleHeaderBytes, 'x') + " HTTP/1.1\r\n\r\n"),
      StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(requests_.size(), 0u);
  EXPECT_THAT(
      Exchange(Call("Connection: close\r\n", std::string(limits::kMaxConsoleBodyBytes, 'x'))),
      StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpListenerTest, ReadsWhatDecides) {
  Start();
  Exchange(
      Call("Origin: http://here\r\nSec-Fetch-Site: same-origin\r\nContent-Type: text/x\r\n"
           "X-Idempotency-Console: 1\r\nAuthorization: Bearer secret\r\nConnection: close\r\n"));
  Exchange(Call("Authorization: Basic dTpw\r\nX-Forwarded-For: 10.1.2.3\r\nConnection: close\r\n"));
  const std::vector<HttpRequest> requests = requests_.Await(2);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].host, "here");
  EXPECT_EQ(requests[0].origin, "http://here");
  EXPECT_EQ(requests[0].fetch_site, "same-origin");
  EXPECT_EQ(requests[0].content_type, "text/x");
  EXPECT_EQ(requests[0].console_header, "1");
  EXPECT_EQ(requests[0].credentials.token, "secret");
  EXPECT_TRUE(requests[0].credentials.local);
  EXPECT_THAT(requests[0].credentials.peer, StartsWith("ipv4:127.0.0.1:"));
  EXPECT_FALSE(requests[0].secure);
  // Through a proxy: of another machine.
  EXPECT_FALSE(requests[1].credentials.local);
  EXPECT_EQ(requests[1].credentials.proxy_header, "x-forwarded-for");
  EXPECT_TRUE(requests[1].credentials.malformed);
}

TEST_F(HttpListenerTest, ClientsThatSendSlowlyAreClosed) {
  Start(Quick());
  RawConnection silent(address_);
  RawConnection half(address_);
  EXPECT_TRUE(half.Send("GET / HTTP/1.1\r\nHost:"));
  RawConnection without_its_body(address_);
  EXPECT_TRUE(without_its_body.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"));
  RawConnection idle(address_);
  EXPECT_TRUE(idle.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_TRUE(silent.AwaitClose());
  EXPECT_TRUE(half.AwaitClose());
  EXPECT_TRUE(without_its_body.AwaitClose());
  EXPECT_TRUE(idle.AwaitClose());
  // A byte now and then does not prolong it.
  RawConnection slow(address_);
  const std::string request = Call("", std::string(4096, 'x'));
  std::size_t sent = 0;
  while (sent < request.size() && slow.Send(request.substr(sent, 1))) {
    ++sent;
    if (slow.ClosesWithin(absl::Milliseconds(5))) break;
  }
  EXPECT_LT(sent, request.size());
}

TEST_F(HttpListenerTest, AClientThatDoesNotReadIsClosedAndDelaysNoOther) {
  Start(Quick());
  RawConnection deaf(address_);
  deaf.KeepFewBytes();
  EXPECT_TRUE(deaf.Send("GET /large HTTP/1.1\r\nHost: here\r\n\r\n"));
  EXPECT_THAT(Exchange(kGet), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(deaf.AwaitReset());
}

TEST_F(HttpListenerTest, ARequestThatIsNotAnsweredEndsItsConnection) {
  Start(Quick());
  RawConnection waiting(address_);
  EXPECT_TRUE(waiting.Send("GET /held HTTP/1.1\r\nHost: here\r\n\r\n"));
  EXPECT_TRUE(waiting.AwaitClose());
  // The late answer does nothing.
  std::vector<HttpReply> held = held_.Await(1);
  ASSERT_EQ(held.size(), 1u);
  held[0](HttpResponse());
  EXPECT_THAT(Exchange(kGet), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpListenerTest, AtTheLimitTheConnectionsOfStrangersEndFirst) {
  HttpListener::Limits limits;
  limits.connections = 2;
  Start(limits);
  RawConnection known(address_);
  EXPECT_TRUE(known.Send(Call()));
  EXPECT_THAT(known.Receive(12), "HTTP/1.1 200");
  RawConnection stranger(address_);
  EXPECT_TRUE(stranger.Send("GET / HTTP/1.1\r\nHost: here\r\n\r\n"));
  EXPECT_THAT(stranger.Receive(12), "HTTP/1.1 200");
  EXPECT_THAT(Exchange(kGet), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(stranger.AwaitClose());
  EXPECT_TRUE(known.Send(Call("Connection: close\r\n")));
  EXPECT_THAT(known.Receive(kAll), HasSubstr("HTTP/1.1 200"));
}

TEST_F(HttpListenerTest, AtItsEndItClosesAllConnections) {
  Start();
  RawConnection idle(address_);
  RawConnection half(address_);
  EXPECT_TRUE(half.Send("GET / HTTP"));
  RawConnection deaf(address_);
  deaf.KeepFewBytes();
  EXPECT_TRUE(deaf.Send("GET /large HTTP/1.1\r\nHost: here\r\n\r\n"));
  RawConnection waiting(address_);
  EXPECT_TRUE(waiting.Send("GET /held HTTP/1.1\r\nHost: here\r\n\r\n"));
  std::vector<HttpReply> held = held_.Await(1);
  ASSERT_EQ(held.size(), 1u);
  listener_.reset();
  EXPECT_TRUE(idle.AwaitClose());
  EXPECT_TRUE(half.AwaitClose());
  EXPECT_TRUE(waiting.AwaitClose());
  held[0](HttpResponse());
}

class HttpsListenerTest : public HttpListenerTest {
 protected:
  void Serve(bool with_clients) {
    Publish(authority_, with_clients);
    Start({}, [this] {
      MutexLock lock(mutex_);
      return content_;
    });
  }
  void Publish(CertificateAuthority& authority, bool with_clients) {
    const CertificateAuthority::Identity server = authority.Issue("idempotencyd", "IP:127.0.0.1");
    auto content = std::make_shared<const TlsContent>(
        TlsContent{server.key + "\n" + server.certificate, with_clients ? authority.root() : ""});
    MutexLock lock(mutex_);
    content_ = std::move(content);
  }
  std::string ExchangeAs(const CertificateAuthority::Identity& identity,
                         int version = TLS1_3_VERSION) {
    return TlsClient(address_, authority_.root(), identity, version).Exchange(kGet);
  }

  CertificateAuthority authority_;
  Mutex mutex_;
  std::shared_ptr<const TlsContent> content_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(HttpsListenerTest, TheNamesOfAClientsCertificateAreItsCredentials) {
  Serve(/*with_clients=*/true);
  const auto alice = authority_.Issue("alice", "URI:spiffe://example.org/alice,DNS:alice.example");
  EXPECT_THAT(ExchangeAs(alice), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ExchangeAs(alice, TLS1_2_VERSION), StartsWith("HTTP/1.1 200 "));
  const std::vector<HttpRequest> requests = requests_.Await(2);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_TRUE(requests[0].secure);
  EXPECT_TRUE(requests[0].credentials.certificate);
  EXPECT_THAT(requests[0].credentials.uris, ElementsAre("spiffe://example.org/alice"));
  EXPECT_THAT(requests[0].credentials.dns_names, ElementsAre("alice.example"));
  EXPECT_EQ(requests[0].credentials.subject, "CN=alice");
}

TEST_F(HttpsListenerTest, AClientOfNoAuthorityIsRefused) {
  Serve(/*with_clients=*/true);
  EXPECT_EQ(ExchangeAs({}), "");
  EXPECT_EQ(ExchangeAs({}, TLS1_2_VERSION), "");
  EXPECT_EQ(ExchangeAs(CertificateAuthority().Issue("mallory")), "");
  EXPECT_EQ(requests_.size(), 0u);
  // Nor one without TLS, or with an old one.
  EXPECT_THAT(Exchange(kGet), Not(HasSubstr("200")));
  EXPECT_EQ(ExchangeAs(authority_.Issue("alice"), TLS1_1_VERSION), "");
}

TEST_F(HttpsListenerTest, WithoutAnAuthorityAClientHasNoCertificate) {
  Serve(/*with_clients=*/false);
  EXPECT_THAT(ExchangeAs(authority_.Issue("alice")), StartsWith("HTTP/1.1 200 "));
  EXPECT_FALSE(requests_.Await(1).at(0).credentials.certificate);
}

TEST_F(HttpsListenerTest, NewCertificatesAreUsedByNewConnections) {
  Serve(/*with_clients=*/true);
  const auto alice = authority_.Issue("alice");
  TlsClient before(address_, authority_.root(), alice);
  CertificateAuthority second;
  Publish(second, /*with_clients=*/true);
  const auto bob = second.Issue("bob");
  EXPECT_THAT(TlsClient(address_, second.root(), bob).Exchange(kGet), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(ExchangeAs(alice), "");
  // One that was open stays.
  EXPECT_THAT(before.Exchange(kGet), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpsListenerTest, AContentThatOpenSslRefusesLeavesThePreviousOne) {
  Serve(/*with_clients=*/false);
  EXPECT_THAT(ExchangeAs({}), StartsWith("HTTP/1.1 200 "));
  {
    MutexLock lock(mutex_);
    content_ = std::make_shared<const TlsContent>(TlsContent{"nonsense", ""});
  }
  EXPECT_THAT(ExchangeAs({}), StartsWith("HTTP/1.1 200 "));
}

// Otherwise a certificate that is revoked, or an authority that is replaced, would still count.
TEST_F(HttpsListenerTest, NoSessionIsResumed) {
  Serve(/*with_clients=*/true);
  const auto alice = authority_.Issue("alice");
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(address_, authority_.root(), alice, version);
    EXPECT_THAT(client.Exchange(kGet), StartsWith("HTTP/1.1 200 "));
    EXPECT_EQ(SSL_SESSION_has_ticket(SSL_get0_session(client.ssl())), 0);
    unsigned size = 0;
    SSL_SESSION_get_id(SSL_get0_session(client.ssl()), &size);
    EXPECT_EQ(size, 0u);
  }
}

TEST_F(HttpsListenerTest, AHandshakeThatStopsEnds) {
  Publish(authority_, /*with_clients=*/true);
  Start(Quick(), [this] {
    MutexLock lock(mutex_);
    return content_;
  });
  RawConnection silent(address_);
  RawConnection half(address_);
  EXPECT_TRUE(half.Send(std::string("\x16\x03\x01\x02\x00\x01", 6)));
  EXPECT_TRUE(silent.AwaitClose());
  EXPECT_TRUE(half.AwaitClose());
}

}  // namespace
}  // namespace idempotency::internal
