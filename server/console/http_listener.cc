#include "server/console/http_listener.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include "server/access/credentials.h"
#include "server/access/peer_certificate.h"
#include "server/console/safeguards.h"
#include "server/console/tls_context.h"
#include "server/limits.h"

namespace idempotency::internal {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace net = boost::asio;
using boost::system::error_code;
using Tcp = net::ip::tcp;
using Request = http::request<http::string_body>;

// Before the next attempt where no descriptor is left.
constexpr std::chrono::milliseconds kAcceptPause(100);
// How long the rest of a refused request is read and dropped: a connection that is closed with
// unread bytes is reset, and the client may lose the refusal.
constexpr std::chrono::seconds kLinger(2);

// As gRPC's: "ipv4:10.0.0.7:4000", "ipv6:[::1]:4000".
std::string PeerText(const Tcp::endpoint& remote) {
  const bool v6 = remote.address().is_v6();
  return absl::StrCat(v6 ? "ipv6:[" : "ipv4:", remote.address().to_string(), v6 ? "]:" : ":",
                      remote.port());
}

bool IsLoopback(const net::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.is_loopback();
  return net::ip::make_address_v4(net::ip::v4_mapped, address.to_v6()).is_loopback();
}

std::string ToString(beast::string_view text) { return {text.data(), text.size()}; }

// Empty if the request has none of them.
std::string_view ProxyHeaderOf(const Request& request) {
  for (const std::string_view name : kProxyHeaders) {
    if (request.count(beast::string_view(name.data(), name.size())) > 0) return name;
  }
  return {};
}

// False if a header that decides something was sent more than once.
bool ReadHeaders(const Request& message, HttpRequest& request) {
  const std::array<std::pair<beast::string_view, std::string*>, 5> read = {{
      {"Host", &request.host},
      {"Origin", &request.origin},
      {"Sec-Fetch-Site", &request.fetch_site},
      {"Content-Type", &request.content_type},
      {"X-Idempotency-Console", &request.console_header},
  }};
  for (const auto& [name, value] : read) {
    if (message.count(name) > 1) return false;
    *value = ToString(message[name]);
  }
  const std::size_t authorizations = message.count(http::field::authorization);
  if (authorizations > 1) return false;
  if (authorizations == 1) {
    const std::string value = ToString(message[http::field::authorization]);
    ReadAuthorization(value, request.credentials);
  }
  return true;
}

HttpResponse PlainRefusal(http::status status, std::string_view text) {
  HttpResponse response;
  response.status = static_cast<unsigned>(status);
  response.content_type = "text/plain; charset=utf-8";
  response.body = text;
  return response;
}

// The answer to what could not be read as a request; nullopt: none, the connection ends.
std::optional<HttpResponse> RefusalOf(const error_code& failed) {
  if (failed == http::error::body_limit) {
    return PlainRefusal(http::status::payload_too_large, "the request is too large\n");
  }
  if (failed == http::error::header_limit || failed == http::error::buffer_overflow) {
    return PlainRefusal(http::status::request_header_fields_too_large,
                        "the headers are too large\n");
  }
  const bool malformed = failed.category() == make_error_code(http::error::bad_version).category();
  if (!malformed || failed == http::error::end_of_stream ||
      failed == http::error::partial_message) {
    return std::nullopt;
  }
  return PlainRefusal(http::status::bad_request, "this is not HTTP/1.1\n");
}

// Called on the listener's thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;
  virtual void Begin() = 0;
  virtual void Write(HttpResponse response) = 0;
  virtual void Close() = 0;
  // One of its calls was permitted.
  virtual bool permitted() const = 0;
};

using Connections = std::list<std::shared_ptr<Connection>>;

// What connections need of their listener.
struct Surroundings {
  std::shared_ptr<net::io_context> io;
  HttpHandler handler;
  HttpListener::Limits limits;
  Connections connections;
  // Nothing begins any more.
  bool stopping = false;
};

template <typename Stream>
class ConnectionOver final : public Connection {
 public:
  static constexpr bool kSecure = !std::is_same_v<Stream, beast::tcp_stream>;

  // The surroundings outlive it, up to its Close().
  template <typename... Arguments>
  ConnectionOver(Surroundings& surroundings, std::shared_ptr<net::ssl::context> context,
                 Arguments&&... arguments)
      : surroundings_(surroundings),
        context_(std::move(context)),
        stream_(std::forward<Arguments>(arguments)...),
        answer_deadline_(*surroundings.io) {
    error_code gone;
    const Tcp::endpoint remote = Socket().remote_endpoint(gone);
    credentials_.local = !gone && IsLoopback(remote.address());
    if (!gone) credentials_.peer = PeerText(remote);
  }

  void Begin() override {
    if constexpr (kSecure) {
      Await();
      stream_.async_handshake(net::ssl::stream_base::server,
                              [self = Self()](error_code failed) { self->OnHandshake(failed); });
    } else {
      Read();
    }
  }

  void Write(HttpResponse response) override {
    awaits_answer_ = false;
    answer_deadline_.cancel();
    permitted_ = permitted_ || (is_call_ && response.status == 200);
    AddSafeguards(response);
    hold_ = std::move(response.hold);
    response_.emplace(static_cast<http::status>(response.status), 11);
    response_->set(http::field::content_type, response.content_type);
    for (const auto& [name, value] : response.headers) response_->set(name, value);
    response_->body() = std::move(response.body);
    response_->keep_alive(keep_alive_);
    response_->prepare_payload();
    // With the length that GET has.
    if (without_body_) response_->body().clear();
    // A close in the middle of it leaves nothing for the kernel to send.
    Reset(true);
    Await();
    http::async_write(stream_, *response_,
                      [self = Self()](error_code failed, std::size_t) { self->OnWritten(failed); });
  }

  void Close() override {
    answer_deadline_.cancel();
    Transport().close();
  }

  bool permitted() const override { return permitted_; }

 private:
  std::shared_ptr<ConnectionOver> Self() {
    return std::static_pointer_cast<ConnectionOver>(shared_from_this());
  }
  beast::tcp_stream& Transport() { return beast::get_lowest_layer(stream_); }
  Tcp::socket& Socket() { return Transport().socket(); }
  // Whether a close discards what the client has not taken.
  void Reset(bool at_close) {
    error_code ignored;
    Socket().set_option(Tcp::socket::linger(at_close, 0), ignored);
  }
  // From now on, whatever arrives or leaves meanwhile.
  void Await() {
    Transport().expires_after(absl::ToChronoNanoseconds(surroundings_.limits.timeout));
  }

  void End() {
    Close();
    surroundings_.connections.remove_if([this](const auto& other) { return other.get() == this; });
  }

  void OnHandshake(const error_code& failed) {
    if (failed) return End();
    if constexpr (kSecure) {
      const X509* const certificate = SSL_get0_peer_certificate(stream_.native_handle());
      if (certificate != nullptr) ReadCertificate(*certificate, credentials_);
    }
    Read();
  }

  void Read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(limits::kMaxConsoleHeaderBytes));
    parser_->body_limit(limits::kMaxConsoleBodyBytes);
    Await();
    http::async_read(stream_, buffer_, *parser_,
                     [self = Self()](error_code failed, std::size_t) { self->OnRead(failed); });
  }

  void OnRead(const error_code& failed) {
    if (surroundings_.stopping) return;
    is_call_ = false;
    without_body_ = false;
    if (failed) {
      std::optional<HttpResponse> refusal = RefusalOf(failed);
      if (!refusal) return End();
      keep_alive_ = false;
      return Write(*std::move(refusal));
    }
    Request message = parser_->release();
    // A caller's certificate is verified again from time to time, as on the other port.
    keep_alive_ = message.keep_alive() && std::chrono::steady_clock::now() < renewal_;
    is_call_ = message.method() == http::verb::post;
    without_body_ = message.method() == http::verb::head;
    HttpRequest request;
    request.credentials = credentials_;
    if (credentials_.local) request.credentials.SetLocal(ProxyHeaderOf(message));
    if (!ReadHeaders(message, request)) {
      keep_alive_ = false;
      return Write(PlainRefusal(http::status::bad_request, "a header was sent more than once\n"));
    }
    request.method = ToString(message.method_string());
    request.target = ToString(message.target());
    request.body = std::move(message.body());
    request.secure = kSecure;
    AwaitAnswer();
    surroundings_.handler(std::move(request), Reply());
  }

  void AwaitAnswer() {
    Transport().expires_never();
    awaits_answer_ = true;
    answer_deadline_.expires_after(absl::ToChronoNanoseconds(surroundings_.limits.answer_time));
    answer_deadline_.async_wait([self = Self()](error_code ended) {
      if (!ended && self->awaits_answer_) self->End();
    });
  }

  // Writes from the listener's thread, if both are still there.
  HttpReply Reply() {
    return [io = surroundings_.io, connection = weak_from_this()](HttpResponse response) {
      auto held = std::make_shared<HttpResponse>(std::move(response));
      net::post(*io, [connection, held] {
        if (const std::shared_ptr<Connection> open = connection.lock()) {
          open->Write(std::move(*held));
        }
      });
    };
  }

  void OnWritten(const error_code& failed) {
    hold_.Release();
    response_.reset();
    if (surroundings_.stopping) return;
    if (failed) return End();
    Reset(false);
    if (keep_alive_) return Read();
    error_code ignored;
    Socket().shutdown(Tcp::socket::shutdown_send, ignored);
    Transport().expires_after(kLinger);
    Drop();
  }

  void Drop() {
    Transport().async_read_some(net::buffer(dropped_),
                                [self = Self()](error_code ended, std::size_t) {
                                  if (ended) return self->End();
                                  self->Drop();
                                });
  }

  Surroundings& surroundings_;
  // Not used, but in use by the stream.
  const std::shared_ptr<net::ssl::context> context_;
  Stream stream_;
  net::steady_timer answer_deadline_;
  bool awaits_answer_ = false;
  Credentials credentials_;
  const std::chrono::steady_clock::time_point renewal_ =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(limits::kMaxConnectionAge);
  beast::flat_buffer buffer_{limits::kMaxConsoleHeaderBytes + limits::kMaxConsoleBodyBytes};
  std::optional<http::request_parser<http::string_body>> parser_;
  // Of the request: POST, HEAD.
  bool is_call_ = false;
  bool without_body_ = false;
  std::optional<http::response<http::string_body>> response_;
  MemoryBudget::Hold hold_;
  bool keep_alive_ = false;
  bool permitted_ = false;
  std::array<char, 4096> dropped_;
};

using PlainConnection = ConnectionOver<beast::tcp_stream>;
using TlsConnection = ConnectionOver<beast::ssl_stream<beast::tcp_stream>>;

}  // namespace

class HttpListener::Server {
 public:
  Server(TlsSource tls, HttpHandler handler, const Limits& limits)
      : surroundings_{std::make_shared<net::io_context>(1), std::move(handler), limits, {}, false} {
    if (tls != nullptr) tls_.emplace(std::move(tls));
  }

  ~Server() {
    net::post(*surroundings_.io, [this] { Stop(); });
    if (thread_.joinable()) {
      thread_.join();
    } else {
      surroundings_.io->run();
    }
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  absl::Status Listen(const std::vector<FileDescriptor>& sockets) {
    for (const FileDescriptor& socket : sockets) {
      FileDescriptor copy(dup(socket.get()));
      Port& port = ports_.emplace_back(*surroundings_.io);
      error_code failed;
      // The family is used only to open sockets.
      port.acceptor.assign(Tcp::v6(), copy.get(), failed);
      if (failed) return absl::FailedPreconditionError(failed.message());
      copy.Release();
    }
    for (Port& port : ports_) Accept(port);
    thread_ = std::thread([this] { surroundings_.io->run(); });
    pthread_setname_np(thread_.native_handle(), "console");
    return absl::OkStatus();
  }

 private:
  struct Port {
    explicit Port(net::io_context& io) : acceptor(io), pause(io) {}
    Tcp::acceptor acceptor;
    net::steady_timer pause;
  };

  // The thread ends when what was closed here is done.
  void Stop() {
    surroundings_.stopping = true;
    for (Port& port : ports_) {
      error_code ignored;
      port.acceptor.close(ignored);
      port.pause.cancel();
    }
    for (const std::shared_ptr<Connection>& connection : surroundings_.connections) {
      connection->Close();
    }
    surroundings_.connections.clear();
  }

  void Accept(Port& port) {
    port.acceptor.async_accept([this, &port](error_code failed, Tcp::socket socket) {
      if (surroundings_.stopping) return;
      if (failed) return AcceptLater(port);
      Add(std::move(socket));
      Accept(port);
    });
  }

  void AcceptLater(Port& port) {
    port.pause.expires_after(kAcceptPause);
    port.pause.async_wait([this, &port](error_code ended) {
      if (!ended && !surroundings_.stopping) Accept(port);
    });
  }

  void Add(Tcp::socket socket) {
    std::shared_ptr<Connection> connection;
    if (tls_) {
      std::shared_ptr<net::ssl::context> context = tls_->Current();
      if (context == nullptr) return;
      connection =
          std::make_shared<TlsConnection>(surroundings_, context, std::move(socket), *context);
    } else {
      connection = std::make_shared<PlainConnection>(surroundings_, nullptr, std::move(socket));
    }
    MakeRoom();
    surroundings_.connections.push_back(connection);
    connection->Begin();
  }

  // A stranger who opens connections does not end those of the operators.
  void MakeRoom() {
    Connections& connections = surroundings_.connections;
    while (connections.size() >= surroundings_.limits.connections) {
      auto ended = std::find_if(connections.begin(), connections.end(),
                                [](const auto& other) { return !other->permitted(); });
      if (ended == connections.end()) ended = connections.begin();
      (*ended)->Close();
      connections.erase(ended);
    }
  }

  Surroundings surroundings_;
  std::optional<TlsContext> tls_;
  // Stays at its address.
  std::list<Port> ports_;
  std::thread thread_;
};

HttpListener::HttpListener(std::unique_ptr<Server> server) : server_(std::move(server)) {}

HttpListener::~HttpListener() = default;

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(
    const std::vector<FileDescriptor>& sockets, TlsSource tls, HttpHandler handler,
    const Limits& limits) {
  auto server = std::make_unique<Server>(std::move(tls), std::move(handler), limits);
  if (absl::Status listening = server->Listen(sockets); !listening.ok()) return listening;
  // Private constructor.
  return std::unique_ptr<HttpListener>(new HttpListener(std::move(server)));
}

}  // namespace idempotency::internal
