#include "interceptors/server/grpc_internals/stored_stream.h"

#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "google/protobuf/message.h"
#include "google/protobuf/message_lite.h"

#include "core/grpc_headers.h"
#include "interceptors/server/grpc_internals/any_message.h"
#include "interceptors/server/grpc_internals/stored_reply.h"

namespace idempotency::internal::grpc_internals {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::MessageLite;
using grpc::internal::MethodHandler;

// One message of a stream, of its real type, sent as its stored bytes.
class StoredMessage {
 public:
  StoredMessage(const Descriptor& type, std::shared_ptr<const std::string> bytes, GuardLog& log)
      : message_(MessageFactory::generated_factory()->GetPrototype(&type)->New()) {
    Load(*message_, std::move(bytes), log);
  }
  ~StoredMessage() { Unload(address()); }
  StoredMessage(const StoredMessage&) = delete;
  StoredMessage& operator=(const StoredMessage&) = delete;

  const AnyMessage* get() const { return static_cast<const AnyMessage*>(address()); }

 private:
  const void* address() const { return static_cast<const MessageLite*>(message_.get()); }

  const std::unique_ptr<Message> message_;
};

// An OK would claim that the stream was complete.
grpc::Status NotSent() {
  return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                      "a stored message of the stream could not be sent: it is over the server's "
                      "limit, or the call was cancelled");
}

// The messages of the stream. A recovery handler completes with one message, the body: it becomes
// the stream.
int MessagesOf(const v1::Reply& reply) { return reply.has_body() ? 1 : reply.stream_size(); }

std::shared_ptr<const std::string> MessageOf(const SentReply& reply, int index) {
  const v1::Reply& stored = reply.stored();
  return reply.Share(stored.has_body() ? stored.body() : stored.stream(index));
}

// The request is in the call's arena; destroyed through the base class, because its type is
// unknown here. gRPC's handlers for AnyMessage, which receive it, only "destroy" it once more
// as an AnyMessage, and that does nothing.
void DestroyRequest(const MethodHandler::HandlerParameter& parameter) {
  static_cast<MessageLite*>(parameter.request)->~MessageLite();
}

// Lives until gRPC has finished with the call.
class StoredStreamReactor final : public grpc::ServerWriteReactor<AnyMessage> {
 public:
  StoredStreamReactor(const Descriptor& type, SentReply reply, GuardLog& log)
      : type_(type), reply_(std::move(reply)), log_(log) {}

  // Sends the next message, and the status after the last one.
  void Next() {
    if (next_ == MessagesOf(reply_.stored())) {
      Finish(StatusOf(reply_.stored()));
      return;
    }
    message_.emplace(type_, MessageOf(reply_, next_++), log_);
    StartWrite(message_->get());
  }
  void OnWriteDone(bool ok) override {
    if (ok) {
      Next();
    } else {
      Finish(NotSent());
    }
  }
  void OnDone() override { const std::unique_ptr<StoredStreamReactor> self(this); }

 private:
  const Descriptor& type_;
  const SentReply reply_;
  GuardLog& log_;
  int next_ = 0;
  std::optional<StoredMessage> message_;
};

}  // namespace

void SendStoredStream(const MethodHandler::HandlerParameter& parameter, const Descriptor& type,
                      const SentReply& reply, GuardLog& log) {
  DestroyRequest(parameter);
  SetMetadata(reply, *parameter.server_context);
  // The service's type does not matter: there is none.
  grpc::internal::ServerStreamingHandler<AnyMessage, AnyMessage, AnyMessage> handler(
      [&](AnyMessage* /*service*/, grpc::ServerContext* /*context*/, const AnyMessage* /*request*/,
          grpc::ServerWriter<AnyMessage>* writer) {
        for (int i = 0; i < MessagesOf(reply.stored()); ++i) {
          const StoredMessage message(type, MessageOf(reply, i), log);
          if (!writer->Write(*message.get())) return NotSent();
        }
        return StatusOf(reply.stored());
      },
      nullptr);
  handler.RunHandler(parameter);
}

void StartStoredStream(const MethodHandler::HandlerParameter& parameter, const Descriptor& type,
                       SentReply reply, GuardLog& log) {
  DestroyRequest(parameter);
  SetMetadata(reply, *parameter.server_context);
  StoredStreamReactor* reactor = nullptr;
  grpc::internal::CallbackServerStreamingHandler<AnyMessage, AnyMessage> handler(
      [&](grpc::CallbackServerContext* /*context*/,
          const AnyMessage* /*request*/) -> grpc::ServerWriteReactor<AnyMessage>* {
        reactor = std::make_unique<StoredStreamReactor>(type, std::move(reply), log).release();
        return reactor;
      });
  // Uses the handler only until it returns.
  handler.RunHandler(parameter);
  // Not by the handler, as for a unary call.
  if (reactor != nullptr) reactor->Next();
}

}  // namespace idempotency::internal::grpc_internals
