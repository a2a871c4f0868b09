#include "server/store/redis/connection.h"

#include <hiredis/hiredis.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "server/store/limits.h"
#include "server/store/redis/scripts.h"

namespace idempotency::internal {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
// What was sent is not kept for longer.
constexpr std::size_t kKeptOutBytes = 1024 * 1024;

absl::Status Refused(const RedisAddress& address, std::string_view command,
                     std::string_view error) {
  return absl::UnavailableError(
      absl::StrCat(address.ToString(), ": ", AbslView(command), ": ", AbslView(error)));
}

RedisConnection::TimePoint DeadlineOf(const RedisOptions& options) {
  return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(options.connect_timeout);
}

}  // namespace

void RedisConnection::FreeReader::operator()(redisReader* reader) const { redisReaderFree(reader); }

RedisConnection::RedisConnection(RedisAddress address, std::unique_ptr<RedisSocket> socket)
    : address_(std::move(address)), socket_(std::move(socket)), reader_(redisReaderCreate()) {}

RedisConnection::~RedisConnection() = default;

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::OpenAs(
    const RedisAddress& address, const RedisOptions& options, const std::string& user,
    const RedisSecret& secret, TimePoint deadline) {
  absl::StatusOr<std::unique_ptr<RedisSocket>> socket =
      RedisSocket::Connect(address, options, deadline);
  if (!socket.ok()) return socket.status();
  // Private constructor.
  std::unique_ptr<RedisConnection> connection(new RedisConnection(address, *std::move(socket)));
  if (absl::Status in = connection->LogIn(user, secret, deadline); !in.ok()) return in;
  return connection;
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Open(
    const RedisAddress& address, const RedisOptions& options) {
  const TimePoint deadline = DeadlineOf(options);
  auto connection = OpenAs(address, options, options.user, options.password, deadline);
  if (!connection.ok()) return connection;
  if (absl::Status begun = (*connection)->Begin(options, deadline); !begun.ok()) return begun;
  return connection;
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::OpenNode(
    const RedisAddress& address, const RedisOptions& options) {
  return OpenAs(address, options, options.user, options.password, DeadlineOf(options));
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::OpenSentinel(
    const RedisAddress& address, const RedisOptions& options) {
  return OpenAs(address, options, "", options.sentinel_password, DeadlineOf(options));
}

absl::Status RedisConnection::LogIn(const std::string& user, const RedisSecret& secret,
                                    TimePoint deadline) {
  const absl::StatusOr<std::string> password = secret.Read();
  if (!password.ok()) return password.status();
  if (user.empty() && password->empty()) return absl::OkStatus();
  const absl::StatusOr<RedisReply> in = user.empty()
                                            ? Call(RedisWire({"AUTH", *password}), deadline)
                                            : Call(RedisWire({"AUTH", user, *password}), deadline);
  if (!in.ok()) return in.status();
  if (in->value().IsError()) return Refused(address_, "login", in->value().text());
  return absl::OkStatus();
}

absl::StatusOr<RedisReply> RedisConnection::Call(std::string_view wire, TimePoint deadline) {
  Send(wire);
  RedisConnection* const self = this;
  Exchange({&self, 1}, deadline);
  std::optional<RedisReply> reply = Take();
  if (!reply) return absl::UnavailableError(absl::StrCat(address_.ToString(), ": no answer"));
  return *std::move(reply);
}

absl::Status RedisConnection::Begin(const RedisOptions& options, TimePoint deadline) {
  std::vector<std::string> commands = {RedisWire({"CLIENT", "SETNAME", "idempotencyd"}),
                                       RedisWire({"INFO"})};
  if (options.database != 0) {
    commands.push_back(RedisWire({"SELECT", absl::StrCat(options.database)}));
  }
  for (const RedisScript* const script : RedisScripts()) {
    commands.push_back(RedisWire({"SCRIPT", "LOAD", script->text}));
  }
  for (const std::string& command : commands) Send(command);
  RedisConnection* const self = this;
  Exchange({&self, 1}, deadline);
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const std::optional<RedisReply> reply = Take();
    if (!reply) return absl::UnavailableError(absl::StrCat(address_.ToString(), ": no answer"));
    // A name is only for operators.
    if (i == 0) continue;
    if (reply->value().IsError()) return Refused(address_, "set-up", reply->value().text());
    if (i == 1) server_ = ParseRedisInfo(reply->value().text());
  }
  const absl::Status may = CheckRedisServer(server_, options);
  return absl::Status(may.code(),
                      may.ok() ? "" : absl::StrCat(address_.ToString(), ": ", may.message()));
}

void RedisConnection::Send(std::string_view wire) {
  out_.append(wire);
  ++outstanding_;
}

std::optional<RedisReply> RedisConnection::Take() {
  if (replies_.empty()) return std::nullopt;
  RedisReply reply = std::move(replies_.front());
  replies_.pop_front();
  return reply;
}

bool RedisConnection::Intact() const { return socket_ != nullptr && !Waits(); }

bool RedisConnection::Usable() {
  if (!Intact()) return false;
  pollfd state{socket_->descriptor(), POLLIN, 0};
  // Nothing may come without a command: the server closes the connection.
  if (poll(&state, 1, 0) > 0) Close();
  return socket_ != nullptr;
}

short RedisConnection::Events() const {
  const bool writes = sent_ < out_.size();
  short events = POLLIN;
  if ((writes && !write_wants_read_) || read_wants_write_) events |= POLLOUT;
  return events;
}

void RedisConnection::Move() {
  WriteSome();
  if (socket_ != nullptr) ReadSome();
}

void RedisConnection::WriteSome() {
  write_wants_read_ = false;
  while (sent_ < out_.size()) {
    const auto progress = socket_->Write(std::string_view(out_).substr(sent_));
    if (progress.outcome == RedisSocket::Outcome::kClosed) return Close();
    if (progress.outcome != RedisSocket::Outcome::kMoved) {
      write_wants_read_ = progress.outcome == RedisSocket::Outcome::kWantsRead;
      return;
    }
    sent_ += progress.bytes;
  }
  out_.clear();
  if (out_.capacity() > kKeptOutBytes) out_.shrink_to_fit();
  sent_ = 0;
}

void RedisConnection::ReadSome() {
  read_wants_write_ = false;
  std::array<char, kReadBytes> buffer;
  while (outstanding_ > 0) {
    const auto progress = socket_->Read(buffer.data(), buffer.size());
    if (progress.outcome == RedisSocket::Outcome::kClosed) return Close();
    if (progress.outcome != RedisSocket::Outcome::kMoved) {
      read_wants_write_ = progress.outcome == RedisSocket::Outcome::kWantsWrite;
      return;
    }
    received_ += progress.bytes;
    const bool fits = received_ <= limits::kMaxRedisReplyBytes;
    if (!fits || redisReaderFeed(reader_.get(), buffer.data(), progress.bytes) != REDIS_OK ||
        !TakeReplies()) {
      return Close();
    }
  }
}

bool RedisConnection::TakeReplies() {
  while (true) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) return false;
    if (reply == nullptr) return true;
    replies_.emplace_back(static_cast<redisReply*>(reply));
    received_ = 0;
    // More replies than commands: they do not belong together.
    if (outstanding_ == 0) return false;
    --outstanding_;
  }
}

void RedisConnection::Close() { socket_.reset(); }

void RedisConnection::Exchange(absl::Span<RedisConnection* const> connections, TimePoint deadline) {
  while (true) {
    std::vector<pollfd> waiting;
    std::vector<RedisConnection*> owners;
    for (RedisConnection* const connection : connections) {
      if (connection->Waits()) connection->Move();
      if (!connection->Waits()) continue;
      waiting.push_back({connection->socket_->descriptor(), connection->Events(), 0});
      owners.push_back(connection);
    }
    if (waiting.empty()) return;
    const int left = MillisecondsUntil(deadline);
    const int ready = poll(waiting.data(), waiting.size(), left);
    const bool failed = ready < 0 && errno != EINTR;
    if (failed || (left == 0 && ready == 0)) {
      for (RedisConnection* const owner : owners) owner->Close();
      return;
    }
  }
}

}  // namespace idempotency::internal
