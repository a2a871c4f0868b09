#include "interceptors/server/grpc_internals.h"

#include <cxxabi.h>
#include <grpc/grpc.h>
#include <grpcpp/alarm.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/server_callback.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "google/protobuf/message_lite.h"

#include "core/mutex.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::grpc_internals {

// Stands for a generated message whose type is not known here. Never read or
// written as such: only its address is passed on.
//
// Not in an anonymous namespace: compilers take the classes derived from
// MessageHolder<AnyMessage, AnyMessage> in this file for all that there are if
// its name cannot be known elsewhere, and would call one of them instead of the
// user's holder. So it is too with whole-program devirtualisation (clang's
// -fwhole-program-vtables), which this file must be built without.
class AnyMessage {};

// The stored bytes of replies that are on their way out, by the address of the
// message that gRPC was given. gRPC must be given the real message, because
// other interceptors cast GetSendMessage() to it; but serialising that again
// would put its maps in another order than the first reply had. Thread-safe.
class StoredBytes {
 public:
  // Never destroyed: calls may end after static destruction has begun.
  static StoredBytes& Instance() {
    static StoredBytes* const instance = std::make_unique<StoredBytes>().release();
    return *instance;
  }

  void Put(const void* message, std::shared_ptr<const std::string> bytes) {
    Shard& shard = ShardOf(message);
    MutexLock lock(shard.mutex);
    shard.bytes[message] = std::move(bytes);
  }

  void Remove(const void* message) {
    Shard& shard = ShardOf(message);
    MutexLock lock(shard.mutex);
    shard.bytes.erase(message);
  }

  // nullptr for any other message.
  std::shared_ptr<const std::string> Find(const void* message) {
    Shard& shard = ShardOf(message);
    MutexLock lock(shard.mutex);
    const auto found = shard.bytes.find(message);
    return found == shard.bytes.end() ? nullptr : found->second;
  }

 private:
  struct Shard {
    Mutex mutex;
    absl::flat_hash_map<const void*, std::shared_ptr<const std::string>> bytes
        ABSL_GUARDED_BY(mutex);
  };

  Shard& ShardOf(const void* message) { return shards_[absl::HashOf(message) % shards_.size()]; }

  std::array<Shard, 32> shards_;
};

}  // namespace idempotency::grpc_internals

namespace grpc {

// Hands out stored bytes where there are some, and otherwise serialises the
// message, which may be one that another interceptor put in its place.
template <>
class SerializationTraits<idempotency::grpc_internals::AnyMessage> {
 public:
  static Status Serialize(const idempotency::grpc_internals::AnyMessage& any, ByteBuffer* buffer,
                          bool* own_buffer) {
    const void* address = &any;
    const auto stored = idempotency::grpc_internals::StoredBytes::Instance().Find(address);
    *own_buffer = true;
    std::string serialized;
    if (stored == nullptr &&
        !static_cast<const google::protobuf::MessageLite*>(address)->SerializePartialToString(
            &serialized)) {
      return Status(StatusCode::INTERNAL, "Failed to serialize message");
    }
    Slice slice(stored == nullptr ? serialized : *stored);
    ByteBuffer bytes(&slice, 1);
    buffer->Swap(&bytes);
    return Status::OK;
  }

  // Requests are deserialised by the handler of the user's service.
  static Status Deserialize(ByteBuffer* /*buffer*/,
                            idempotency::grpc_internals::AnyMessage* /*message*/) {
    return Status(StatusCode::INTERNAL, "not a handler for requests");
  }
};

}  // namespace grpc

namespace idempotency::grpc_internals {
namespace {

using google::protobuf::Message;
using google::protobuf::MessageLite;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;
using grpc::internal::MethodHandler;
using grpc::internal::RpcMethod;
using grpc::internal::RpcServiceMethod;
// The user's holder, seen through a type of ours: two pointers after the
// virtual table, whatever they point to. CheckLayout() tries it.
using AnyHolder = grpc::MessageHolder<AnyMessage, AnyMessage>;
using AnyCallbackHandler = grpc::internal::CallbackUnaryHandler<AnyMessage, AnyMessage>;

// grpc::Service::GetHandler is protected; a pointer to it, named through a
// class that may, works on any service.
class HandlerAccess : public grpc::Service {
 public:
  static MethodHandler* Get(grpc::Service& service, int index) {
    constexpr auto kGetHandler = &HandlerAccess::GetHandler;
    return (service.*kGetHandler)(index);
  }
};

std::string TypeNameOf(const MethodHandler& handler) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(handler).name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : typeid(handler).name();
}

// A template cannot be asked for by dynamic_cast without its arguments, so the
// type's name decides.
std::optional<MethodKind> KindOf(const MethodHandler& handler) {
  const std::string name = TypeNameOf(handler);
  const auto is = [&name](absl::string_view type) {
    return absl::StartsWith(name, absl::StrCat("grpc::internal::", type, "<"));
  };
  // Raw callback methods are callback handlers for bytes.
  if (absl::StrContains(name, "<grpc::ByteBuffer, grpc::ByteBuffer>")) return std::nullopt;
  if (is("RpcMethodHandler")) return MethodKind::kSyncUnary;
  if (is("CallbackUnaryHandler")) return MethodKind::kCallbackUnary;
  if (is("ClientStreamingHandler") || is("ServerStreamingHandler") || is("BidiStreamingHandler")) {
    return MethodKind::kSyncStreaming;
  }
  if (is("CallbackClientStreamingHandler") || is("CallbackServerStreamingHandler") ||
      is("CallbackBidiHandler")) {
    return MethodKind::kCallbackStreaming;
  }
  return std::nullopt;
}

RpcMethod::RpcType RpcTypeOf(const MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? RpcMethod::BIDI_STREAMING : RpcMethod::CLIENT_STREAMING;
  }
  return method.server_streaming() ? RpcMethod::SERVER_STREAMING : RpcMethod::NORMAL_RPC;
}

bool IsLegal(const v1::MetadataEntry& entry) {
  const grpc_slice key = grpc_slice_from_static_buffer(entry.key().data(), entry.key().size());
  const grpc_slice value =
      grpc_slice_from_static_buffer(entry.value().data(), entry.value().size());
  return grpc_header_key_is_legal(key) != 0 &&
         (grpc_is_binary_header(key) != 0 || grpc_header_nonbin_value_is_legal(value) != 0);
}

// ServerContextBase's own setters are what the handler would have called.
void SetMetadata(const v1::Reply& reply, grpc::ServerContextBase& context) {
  // gRPC aborts the process on metadata that may not go over the wire, and a
  // record may have been settled by hand.
  for (const v1::MetadataEntry& entry : reply.initial_metadata()) {
    if (IsLegal(entry)) context.AddInitialMetadata(entry.key(), entry.value());
  }
  for (const v1::MetadataEntry& entry : reply.trailing_metadata()) {
    if (IsLegal(entry)) context.AddTrailingMetadata(entry.key(), entry.value());
  }
  if (reply.has_compression_level() && reply.compression_level() >= 0 &&
      reply.compression_level() < GRPC_COMPRESS_LEVEL_COUNT) {
    context.set_compression_level(static_cast<grpc_compression_level>(reply.compression_level()));
  }
}

grpc::Status StatusOf(const v1::Reply& reply) {
  return grpc::Status(static_cast<grpc::StatusCode>(reply.code()), reply.message(),
                      reply.details());
}

// Fills `message` with the stored body, for interceptors that look at it, and
// has gRPC send exactly these bytes. Bytes that do not parse (a newer build
// wrote them) are sent as they are.
void Load(MessageLite& message, std::string body) {
  if (!message.ParsePartialFromString(body)) {
    spdlog::warn("a stored reply does not parse as {}: it is sent as it is", message.GetTypeName());
  }
  StoredBytes::Instance().Put(&message, std::make_shared<const std::string>(std::move(body)));
}

bool ClientDeadlinePassed(const grpc::ServerContextBase& context) {
  return context.deadline() <= std::chrono::system_clock::now();
}

v1::Reply Cancelled() {
  v1::Reply reply;
  reply.set_code(static_cast<int>(grpc::StatusCode::CANCELLED));
  reply.set_message("the client left before the operation was begun");
  return reply;
}

// A sync call: the thread that brought it waits inside RunHandler.
class HeldSyncCall final : public HeldCall {
 public:
  HeldSyncCall(MethodHandler& inner, const MethodDescriptor& method,
               const MethodHandler::HandlerParameter& parameter)
      : inner_(inner), method_(method), parameter_(parameter) {}

  grpc::ServerContextBase& context() override { return *parameter_.server_context; }
  const Message& request() override {
    return static_cast<const Message&>(*static_cast<MessageLite*>(parameter_.request));
  }
  void Run(std::function<void()> client_left) override {
    MutexLock lock(mutex_);
    decided_ = true;
    client_left_ = std::move(client_left);
    decision_.NotifyOne();
  }
  void Answer(v1::Reply reply) override {
    MutexLock lock(mutex_);
    decided_ = true;
    reply_ = std::move(reply);
    decision_.NotifyOne();
  }

  // Does what was decided, on gRPC's own thread.
  void WaitAndAct() {
    {
      MutexLock lock(mutex_);
      while (!decided_) decision_.Wait(lock);
    }
    if (!reply_.has_value() && client_left_ != nullptr &&
        (parameter_.server_context->IsCancelled() || ClientDeadlinePassed(context()))) {
      client_left_();
      reply_ = Cancelled();
    }
    if (reply_.has_value()) {
      Send(*std::move(reply_));
    } else {
      inner_.RunHandler(parameter_);
    }
  }

 private:
  void Send(v1::Reply reply) {
    // The handler would have destroyed the request, which lives in the call's
    // arena; through the base, because its type is not known here.
    static_cast<MessageLite*>(parameter_.request)->~MessageLite();
    const std::unique_ptr<Message> message(google::protobuf::MessageFactory::generated_factory()
                                               ->GetPrototype(method_.output_type())
                                               ->New());
    void* const address = static_cast<MessageLite*>(message.get());
    SetMetadata(reply, context());
    grpc::Status status = StatusOf(reply);
    if (status.ok()) Load(*message, std::move(*reply.mutable_body()));
    grpc::internal::UnaryRunHandlerHelper(parameter_, static_cast<AnyMessage*>(address), status);
    StoredBytes::Instance().Remove(address);
  }

  MethodHandler& inner_;
  const MethodDescriptor& method_;
  const MethodHandler::HandlerParameter& parameter_;
  Mutex mutex_;
  CondVar decision_;
  bool decided_ ABSL_GUARDED_BY(mutex_) = false;
  // Written before decided_, read after it by one thread only.
  std::function<void()> client_left_;
  std::optional<v1::Reply> reply_;
};

// Answers a callback call with a stored reply. Lives until gRPC is done with
// it, which is before the message is given back.
class StoredReplyReactor final : public grpc::ServerUnaryReactor {
 public:
  StoredReplyReactor(v1::Reply reply, AnyMessage* response) : address_(response) {
    if (reply.code() == 0) {
      Load(*static_cast<MessageLite*>(static_cast<void*>(response)),
           std::move(*reply.mutable_body()));
    }
    Finish(StatusOf(reply));
  }
  void OnDone() override {
    StoredBytes::Instance().Remove(address_);
    const std::unique_ptr<StoredReplyReactor> self(this);
  }
  // Nothing here takes time: no need for a thread of its own.
  bool InternalInlineable() override { return true; }

 private:
  const void* const address_;
};

// A callback call: RunHandler has returned, gRPC waits for the decision.
class HeldCallbackCall final : public HeldCall,
                               public std::enable_shared_from_this<HeldCallbackCall> {
 public:
  HeldCallbackCall(MethodHandler& inner, const MethodHandler::HandlerParameter& parameter)
      : inner_(inner), parameter_(parameter) {}

  grpc::ServerContextBase& context() override { return *parameter_.server_context; }
  const Message& request() override {
    return static_cast<const Message&>(*static_cast<MessageLite*>(parameter_.request));
  }

  void Run(std::function<void()> client_left) override {
    // IsCancelled() says nothing before the inner handler runs.
    if (client_left != nullptr && ClientDeadlinePassed(context())) {
      client_left();
      Answer(Cancelled());
      return;
    }
    // We are on a thread of the connection's, which must not wait for a
    // handler that takes its time: an alarm that is due takes the call back to
    // gRPC's threads.
    auto alarm = std::make_shared<grpc::Alarm>();
    grpc::Alarm& due = *alarm;
    due.Set(std::chrono::system_clock::now(),
            [self = shared_from_this(), alarm = std::move(alarm)](bool /*expired*/) mutable {
              // Moved out, or the alarm would own itself for ever.
              const auto keep_alarm = std::move(alarm);
              const auto keep_self = std::move(self);
              keep_self->inner_.RunHandler(keep_self->parameter_);
            });
  }

  void Answer(v1::Reply reply) override {
    SetMetadata(reply, context());
    AnyCallbackHandler handler([&reply](grpc::CallbackServerContext* /*context*/,
                                        const AnyMessage* /*request*/,
                                        AnyMessage* response) -> grpc::ServerUnaryReactor* {
      return std::make_unique<StoredReplyReactor>(std::move(reply), response).release();
    });
    // Uses the handler only until it returns; releases the user's holder at
    // the end of the call.
    handler.RunHandler(parameter_);
  }

 private:
  MethodHandler& inner_;
  const MethodHandler::HandlerParameter parameter_;
};

// Stands in for the handler of the user's service.
class GatedHandler final : public MethodHandler {
 public:
  GatedHandler(MethodHandler& inner, MethodKind kind, const MethodDescriptor& method,
               CallGate* gate)
      : inner_(inner), kind_(kind), method_(method), gate_(gate) {}

  void* Deserialize(grpc_call* call, grpc_byte_buffer* request, grpc::Status* status,
                    void** handler_data) override {
    return inner_.Deserialize(call, request, status, handler_data);
  }

  void RunHandler(const HandlerParameter& parameter) override {
    // A request that could not be read is the handler's to refuse.
    if (gate_ == nullptr || !parameter.status.ok()) {
      inner_.RunHandler(parameter);
    } else if (kind_ == MethodKind::kSyncUnary) {
      const auto call = std::make_shared<HeldSyncCall>(inner_, method_, parameter);
      gate_->Admit(call);
      call->WaitAndAct();
    } else {
      gate_->Admit(std::make_shared<HeldCallbackCall>(inner_, parameter));
    }
  }

 private:
  MethodHandler& inner_;
  const MethodKind kind_;
  const MethodDescriptor& method_;
  CallGate* const gate_;
};

class Front final : public grpc::Service {
 public:
  Front(const ServiceDescriptor& descriptor, absl::Span<const MethodKind> kinds,
        absl::Span<CallGate* const> gates, grpc::Service& original) {
    names_.reserve(static_cast<std::size_t>(descriptor.method_count()));
    for (int i = 0; i < descriptor.method_count(); ++i) {
      const auto index = static_cast<std::size_t>(i);
      const MethodDescriptor& method = *descriptor.method(i);
      names_.push_back(absl::StrCat("/", descriptor.full_name(), "/", method.name()));
      // Each object gets a handler of its own, and owns it: marking a method
      // as callback deletes the one that it was added with.
      const auto handler = [&] {
        return std::make_unique<GatedHandler>(*HandlerAccess::Get(original, i), kinds[index],
                                              method, gates[index])
            .release();
      };
      AddMethod(
          std::make_unique<RpcServiceMethod>(names_.back().c_str(), RpcTypeOf(method), handler())
              .release());
      if (kinds[index] == MethodKind::kCallbackUnary ||
          kinds[index] == MethodKind::kCallbackStreaming) {
        MarkMethodCallback(i, handler());
      }
    }
  }

 private:
  // gRPC keeps pointers to them.
  std::vector<std::string> names_;
};

absl::Status Unsupported(absl::string_view name, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(
      name, " cannot be guarded: ", what, ". Unary methods of the sync and the callback API can"));
}

// Counts its release.
class ProbeHolder final : public grpc::MessageHolder<v1::GetRequest, v1::GetResponse> {
 public:
  ProbeHolder() {
    set_request(&request_message);
    set_response(&response_message);
  }
  void Release() override { ++releases; }

  v1::GetRequest request_message;
  v1::GetResponse response_message;
  int releases = 0;
};

class ProbeService {};

}  // namespace

absl::StatusOr<std::vector<MethodKind>> Classify(const ServiceDescriptor& descriptor,
                                                 grpc::Service& service) {
  // GetHandler would follow a null pointer.
  if (service.has_generic_methods()) {
    return Unsupported(descriptor.full_name(), "it has generic methods");
  }
  std::vector<MethodKind> kinds;
  for (int i = 0; i < descriptor.method_count(); ++i) {
    const MethodDescriptor& method = *descriptor.method(i);
    const MethodHandler* handler = HandlerAccess::Get(service, i);
    if (handler == nullptr) {
      return Unsupported(method.full_name(), "it is served from a completion queue");
    }
    const std::optional<MethodKind> kind = KindOf(*handler);
    const bool streaming = RpcTypeOf(method) != RpcMethod::NORMAL_RPC;
    if (!kind.has_value() || streaming != (*kind == MethodKind::kSyncStreaming ||
                                           *kind == MethodKind::kCallbackStreaming)) {
      return Unsupported(method.full_name(), "it is raw, streamed or split");
    }
    kinds.push_back(*kind);
  }
  return kinds;
}

std::unique_ptr<grpc::Service> MakeFront(const ServiceDescriptor& descriptor,
                                         absl::Span<const MethodKind> kinds,
                                         absl::Span<CallGate* const> gates,
                                         grpc::Service& original) {
  return std::make_unique<Front>(descriptor, kinds, gates, original);
}

absl::Status CheckLayout() {
  ProbeHolder probe;
  // Volatile and fenced, so that the optimiser cannot see what `probe` really
  // is: it would take the call through AnyHolder for one that never happens
  // (GCC 12 at -O2 does), and the reads for ones that its writes cannot reach.
  // Real holders come out of gRPC as void*.
  void* volatile opaque =
      static_cast<grpc::MessageHolder<v1::GetRequest, v1::GetResponse>*>(&probe);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  auto* const holder = static_cast<AnyHolder*>(opaque);
  const void* const response = holder->response();
  holder->Release();
  if (static_cast<const void*>(holder->request()) != &probe.request_message ||
      response != &probe.response_message || probe.releases != 1) {
    return absl::FailedPreconditionError("grpc::MessageHolder is not laid out as expected");
  }
  const MessageLite* const base = &probe.response_message;
  if (static_cast<const void*>(base) != static_cast<const void*>(&probe.response_message)) {
    return absl::FailedPreconditionError("a message does not begin with its base");
  }
  const grpc::internal::CallbackUnaryHandler<v1::GetRequest, v1::GetResponse> callback(nullptr);
  const grpc::internal::RpcMethodHandler<ProbeService, v1::GetRequest, v1::GetResponse, MessageLite,
                                         MessageLite>
      sync(nullptr, nullptr);
  if (KindOf(callback) != MethodKind::kCallbackUnary || KindOf(sync) != MethodKind::kSyncUnary) {
    return absl::FailedPreconditionError("gRPC's handlers are not called as expected");
  }
  return absl::OkStatus();
}

}  // namespace idempotency::grpc_internals
