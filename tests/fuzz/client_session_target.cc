// The client's SessionConnection against a daemon with arbitrary answers. The first byte is the
// daemon's limits; each step is a byte, and its arguments.
#include <grpcpp/support/status.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "client/connection/session_connection.h"
#include "client/testing/fake_session_streams.h"
#include "client/testing/scripted_connection.h"
#include "core/mutex.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

using testing::FakeSessionStream;
using testing::FakeSessionStreams;

constexpr int kMaxSteps = 24;
constexpr std::size_t kMaxInputBytes = 4 * 1024;
constexpr int kStatusCodes = 18;
constexpr std::uint32_t kMaxFrameBytes = 256 * 1024;
constexpr std::size_t kMaxWaiting = 6;

// The answers to the operations, which their keys distinguish, and the daemon's answers as sent.
// Thread-safe.
class Answers {
 public:
  template <typename Response>
  Connection::Callback<Response> Expect(const std::string& key) {
    MutexLock lock(mutex_);
    operations_[key];
    return [this, key](const absl::StatusOr<Response>& answer) {
      MutexLock inner(mutex_);
      Operation& operation = operations_[key];
      ++operation.answers;
      operation.succeeded = answer.ok();
      if (answer.ok()) operation.response = answer->SerializeAsString();
    };
  }

  void AnsweredByUnary(const std::string& key) {
    MutexLock lock(mutex_);
    operations_[key].unary = true;
  }
  void ServerSent(const v1::SessionResponse& frame) {
    MutexLock lock(mutex_);
    for (const v1::SessionAnswer& answer : frame.answers()) {
      std::set<std::string>& said = said_[answer.id()];
      if (answer.has_reserve()) said.insert(answer.reserve().SerializeAsString());
      if (answer.has_complete()) said.insert(answer.complete().SerializeAsString());
      if (answer.has_release()) said.insert(answer.release().SerializeAsString());
      if (answer.has_extend()) said.insert(answer.extend().SerializeAsString());
      if (answer.has_get()) said.insert(answer.get().SerializeAsString());
    }
  }
  // An operation of a frame that the session sent.
  void Sent(const std::string& key, std::uint64_t id) {
    MutexLock lock(mutex_);
    Operation& operation = operations_.at(key);
    Require(operation.id == 0 || operation.id == id, "an operation that is repeated keeps its id");
    operation.id = id;
  }

  // No further answer will arrive.
  void End() {
    MutexLock lock(mutex_);
    for (const auto& [key, operation] : operations_) {
      Require(operation.answers == 1, "every operation is answered exactly once");
      Require(!operation.succeeded || operation.unary ||
                  said_[operation.id].count(operation.response) == 1,
              "an operation is answered with what was said to it");
    }
  }

 private:
  struct Operation {
    // 0 until it is sent.
    std::uint64_t id = 0;
    int answers = 0;
    bool succeeded = false;
    bool unary = false;
    std::string response;
  };

  Mutex mutex_;
  std::map<std::string, Operation> operations_ ABSL_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::set<std::string>> said_ ABSL_GUARDED_BY(mutex_);
};

// Serves a daemon that has no sessions.
std::unique_ptr<Connection> Unary(Answers& answers) {
  return std::make_unique<ScriptedConnection>(
      [&answers](const AnyConnectionCall& call, Connection::Deadline /*deadline*/) {
        std::visit(
            [&](const auto& typed) { answers.AnsweredByUnary(typed.request.record_key().key()); },
            call);
        AnswerEmpty(call);
      });
}

// The key of an operation of any kind.
std::string KeyOf(const v1::SessionOperation& operation) {
  if (operation.has_reserve()) return operation.reserve().record_key().key();
  if (operation.has_complete()) return operation.complete().record_key().key();
  if (operation.has_release()) return operation.release().record_key().key();
  if (operation.has_extend()) return operation.extend().record_key().key();
  return operation.get().record_key().key();
}

// One session and its daemon.
class Conversation {
 public:
  explicit Conversation(std::uint8_t limits) {
    if (limits % 2 == 0) links_.SetFirstFrame(testing::Limits(1 + limits / 2, kMaxFrameBytes));
    SessionConnectionOptions options;
    options.streams = limits % 4 == 2 ? 2 : 1;
    options.max_waiting = kMaxWaiting;
    session_ = std::make_unique<SessionConnection>(links_.Factory(), Unary(answers_), options);
  }

  void Send(int kind) {
    switch (kind % 5) {
      case 0:
        return Send<v1::ReserveResponse>(&Connection::Reserve);
      case 1:
        return Send<v1::CompleteResponse>(&Connection::Complete);
      case 2:
        return Send<v1::ReleaseResponse>(&Connection::Release);
      case 3:
        return Send<v1::ExtendResponse>(&Connection::Extend);
      default:
        return Send<v1::GetResponse>(&Connection::Get);
    }
  }

  // On the newest stream.
  void ServerSends(std::string_view bytes) {
    if (links_.count() == 0) return;
    v1::SessionResponse frame;
    if (frame.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      answers_.ServerSent(frame);
      Newest().ServerSends(std::move(frame));
    } else {
      // In gRPC's form.
      Newest().End(grpc::Status(grpc::StatusCode::INTERNAL, "cannot be parsed"));
    }
  }
  void SayFirst(std::string_view bytes) {
    v1::SessionResponse frame;
    if (!frame.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    answers_.ServerSent(frame);
    links_.SetFirstFrame(std::move(frame));
  }
  void EndStream(int code, std::string_view details) {
    if (links_.count() == 0) return;
    Newest().End(grpc::Status(static_cast<grpc::StatusCode>(code % kStatusCodes), "ended",
                              std::string(details)));
  }
  void HoldWrites(bool hold) {
    if (links_.count() == 0) return;
    if (hold) {
      Newest().HoldWrites();
    } else {
      Newest().ReleaseWrites();
    }
  }

  // Until no thread is active, so that the same input takes the same path.
  void Settle() { links_.network().Settle(); }

  void End() {
    session_.reset();
    Settle();
    for (std::size_t i = 0; i < links_.count(); ++i) {
      for (const v1::SessionRequest& frame : links_.at(i).frames()) {
        for (const v1::SessionOperation& operation : frame.operations()) {
          if (!operation.has_cancel()) answers_.Sent(KeyOf(operation), operation.id());
        }
      }
    }
    answers_.End();
  }

 private:
  template <typename Response, typename Request>
  void Send(void (Connection::*method)(const Request&, Connection::Deadline,
                                       Connection::Callback<Response>)) {
    const std::string key = absl::StrCat("operation-", ++sent_);
    Request request;
    request.mutable_record_key()->set_key(key);
    (static_cast<Connection&>(*session_).*method)(request, Connection::Deadline::max(),
                                                  answers_.Expect<Response>(key));
  }
  FakeSessionStream& Newest() { return links_.at(links_.count() - 1); }

  Answers answers_;
  FakeSessionStreams links_;
  std::unique_ptr<SessionConnection> session_;
  int sent_ = 0;
};

}  // namespace

void ClientSession(std::string_view bytes) {
  if (bytes.size() > kMaxInputBytes) return;
  Input input(bytes);
  Conversation conversation(input.Byte());
  for (int step = 0; step < kMaxSteps && !input.empty(); ++step) {
    switch (input.Byte() % 8) {
      case 0:
      case 1:
        conversation.Send(input.Byte());
        break;
      case 2: {
        const int code = input.Byte();
        conversation.EndStream(code, input.Block());
        break;
      }
      case 3:
        conversation.HoldWrites(input.Byte() % 2 == 1);
        break;
      case 4:
        conversation.SayFirst(input.Block());
        break;
      default:
        conversation.ServerSends(input.Block());
    }
    conversation.Settle();
  }
  conversation.End();
}

}  // namespace idempotency::internal::fuzz
