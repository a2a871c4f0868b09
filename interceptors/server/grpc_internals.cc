#include "interceptors/server/grpc_internals.h"

#include <cxxabi.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/server_interceptor.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "google/protobuf/message_lite.h"

#include "core/after_answers.h"
#include "core/grpc_headers.h"
#include "core/mutex.h"
#include "core/retry_delays.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "interceptors/server/admission/rejection.h"
#include "interceptors/server/grpc_internals/any_message.h"
#include "interceptors/server/grpc_internals/call_stream_writer.h"
#include "interceptors/server/grpc_internals/stored_reply.h"
#include "interceptors/server/grpc_internals/stored_stream.h"
#include "interceptors/server/policy/policy_rules.h"

namespace idempotency::internal::grpc_internals {
namespace {

using google::protobuf::Message;
using google::protobuf::MessageLite;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;
using grpc::internal::MethodHandler;
using grpc::internal::RpcMethod;
using grpc::internal::RpcServiceMethod;
// The user's holder, accessed through a type of this library: two pointers after the virtual
// table, of any target type. CheckLayout() tests it.
using AnyHolder = grpc::MessageHolder<AnyMessage, AnyMessage>;
using AnyCallbackHandler = grpc::internal::CallbackUnaryHandler<AnyMessage, AnyMessage>;

// grpc::Service::GetHandler is protected; a pointer to it, named through a derived class, works
// on any service.
class HandlerAccess : public grpc::Service {
 public:
  static MethodHandler* Get(grpc::Service& service, int index) {
    constexpr auto kGetHandler = &HandlerAccess::GetHandler;
    return (service.*kGetHandler)(index);
  }
};

// Ways to private members: an explicit instantiation may name them.
using Methods = std::vector<std::unique_ptr<RpcServiceMethod>>;
const Methods& MethodsOf(const grpc::Service& service);
template <Methods grpc::Service::*kMethods>
struct MethodsMember {
  friend const Methods& MethodsOf(const grpc::Service& service) { return service.*kMethods; }
};
template struct MethodsMember<&grpc::Service::methods_>;

using InterceptorFactories =
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>;
const InterceptorFactories& InterceptorsOf(const grpc::ServerBuilder& builder);
template <InterceptorFactories grpc::ServerBuilder::*kFactories>
struct InterceptorsMember {
  friend const InterceptorFactories& InterceptorsOf(const grpc::ServerBuilder& builder) {
    return builder.*kFactories;
  }
};
template struct InterceptorsMember<&grpc::ServerBuilder::interceptor_creators_>;

#if IDEMPOTENCY_GRPC_HAS_SESSIONS

bool IsVirtual(const grpc::Service& service);
template <bool grpc::Service::*kFlag>
struct VirtualFlag {
  friend bool IsVirtual(const grpc::Service& service) { return service.*kFlag; }
};
template struct VirtualFlag<&grpc::Service::is_virtual_service_>;

#else

bool IsVirtual(const grpc::Service& /*service*/) { return false; }

#endif

// Code compiled with -fno-rtti has a null pointer before a virtual table's functions, in the place
// of the type, and typeid would dereference it.
bool HasType(const MethodHandler& handler) {
  return (*static_cast<const void* const* const*>(static_cast<const void*>(&handler)))[-1] !=
         nullptr;
}

std::string TypeNameOf(const MethodHandler& handler) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(handler).name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : typeid(handler).name();
}

// dynamic_cast cannot find a template without its arguments, so the type's name decides.
std::optional<MethodKind> KindOf(const MethodHandler& handler) {
  const std::string name = TypeNameOf(handler);
  const auto is = [&name](absl::string_view type) {
    return absl::StartsWith(name, absl::StrCat("grpc::internal::", type, "<"));
  };
  // Raw callback methods are callback handlers for bytes.
  if (absl::StrContains(name, "<grpc::ByteBuffer, grpc::ByteBuffer>")) return std::nullopt;
  if (is("RpcMethodHandler")) return MethodKind::kSyncUnary;
  if (is("CallbackUnaryHandler")) return MethodKind::kCallbackUnary;
  if (is("ServerStreamingHandler")) return MethodKind::kSyncServerStreaming;
  if (is("CallbackServerStreamingHandler")) return MethodKind::kCallbackServerStreaming;
  if (is("ClientStreamingHandler") || is("BidiStreamingHandler")) {
    return MethodKind::kSyncClientStreaming;
  }
  if (is("CallbackClientStreamingHandler") || is("CallbackBidiHandler")) {
    return MethodKind::kCallbackClientStreaming;
  }
  return std::nullopt;
}

bool IsCallback(MethodKind kind) {
  return kind == MethodKind::kCallbackUnary || kind == MethodKind::kCallbackServerStreaming ||
         kind == MethodKind::kCallbackClientStreaming;
}

// True if a handler of this kind matches the descriptor.
bool Fits(MethodKind kind, const MethodDescriptor& method) {
  switch (kind) {
    case MethodKind::kSyncUnary:
    case MethodKind::kCallbackUnary:
      return !method.client_streaming() && !method.server_streaming();
    case MethodKind::kSyncServerStreaming:
    case MethodKind::kCallbackServerStreaming:
      return !method.client_streaming() && method.server_streaming();
    case MethodKind::kSyncClientStreaming:
    case MethodKind::kCallbackClientStreaming:
      return method.client_streaming();
  }
  return false;
}

RpcMethod::RpcType RpcTypeOf(const MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? RpcMethod::BIDI_STREAMING : RpcMethod::CLIENT_STREAMING;
  }
  return method.server_streaming() ? RpcMethod::SERVER_STREAMING : RpcMethod::NORMAL_RPC;
}

bool ClientDeadlinePassed(const grpc::ServerContextBase& context) {
  return TimeUntil(context.raw_deadline()) <= absl::ZeroDuration();
}

v1::Reply Cancelled() {
  v1::Reply reply;
  reply.set_code(static_cast<int>(grpc::StatusCode::CANCELLED));
  reply.set_message("the call was cancelled before the operation began");
  return reply;
}

v1::Reply Overloaded() {
  return RejectionReply(MakeError(Reason::kOverloaded,
                                  "too many calls wait for their handler; nothing was run: call "
                                  "again later with the same idempotency key",
                                  RetryAfter(retry_delays::kGuardOverloaded)),
                        /*record_id=*/"");
}

constexpr std::string_view kClientLeft = "the call was cancelled before the handler ran";

void NotRun(HandlerStart& start, std::string_view reason) {
  if (start.not_run != nullptr) start.not_run(reason);
}

// A sync call: the thread that delivered it waits inside RunHandler.
class PendingSyncCall final : public PendingCall {
 public:
  PendingSyncCall(MethodHandler& inner, const MethodDescriptor& method, GuardLog& log,
                  const MethodHandler::HandlerParameter& parameter)
      : inner_(inner), method_(method), log_(log), parameter_(parameter) {}

  bool sync() const override { return true; }
  grpc::ServerContextBase& context() override { return *parameter_.server_context; }
  const Message& request() override {
    return static_cast<const Message&>(*static_cast<MessageLite*>(parameter_.request));
  }
  std::shared_ptr<StreamWriter> MakeStreamWriter() override {
    return method_.server_streaming() ? MakeSyncStreamWriter(*parameter_.call) : nullptr;
  }
  void Run(HandlerStart start) override {
    MutexLock lock(mutex_);
    decided_ = true;
    start_ = std::move(start);
    decision_.NotifyOne();
  }
  void Answer(SentReply reply) override {
    MutexLock lock(mutex_);
    decided_ = true;
    reply_ = std::move(reply);
    decision_.NotifyOne();
  }

  // Waits for the decision and acts on it, on gRPC's own thread.
  void WaitAndAct() {
    {
      MutexLock lock(mutex_);
      while (!decided_) decision_.Wait(lock);
    }
    if (!reply_.has_value()) {
      if (std::optional<v1::Reply> instead = LastLook()) reply_.emplace(*std::move(instead));
    }
    if (!reply_.has_value()) {
      inner_.RunHandler(parameter_);
    } else if (method_.server_streaming()) {
      SendStoredStream(parameter_, *method_.output_type(), *reply_, log_);
    } else {
      Send(*reply_);
    }
  }

 private:
  // The reply that is sent instead of running the handler.
  std::optional<v1::Reply> LastLook() {
    if (start_.needs_client &&
        (parameter_.server_context->IsCancelled() || ClientDeadlinePassed(context()))) {
      NotRun(start_, kClientLeft);
      return Cancelled();
    }
    return start_.last_look == nullptr ? std::nullopt : start_.last_look();
  }

  void Send(const SentReply& reply) {
    // The handler would have destroyed the request, which is in the call's arena; through the
    // base class, because its type is unknown here.
    static_cast<MessageLite*>(parameter_.request)->~MessageLite();
    const std::unique_ptr<Message> message(google::protobuf::MessageFactory::generated_factory()
                                               ->GetPrototype(method_.output_type())
                                               ->New());
    void* const address = static_cast<MessageLite*>(message.get());
    SetMetadata(reply, context());
    grpc::Status status = StatusOf(reply.stored());
    if (status.ok()) Load(*message, reply.Share(reply.stored().body()), log_);
    grpc::internal::UnaryRunHandlerHelper(parameter_, static_cast<AnyMessage*>(address), status);
    Unload(address);
  }

  MethodHandler& inner_;
  const MethodDescriptor& method_;
  GuardLog& log_;
  const MethodHandler::HandlerParameter& parameter_;
  Mutex mutex_;
  CondVar decision_;
  bool decided_ ABSL_GUARDED_BY(mutex_) = false;
  // Written before decided_, read after it by one thread only.
  HandlerStart start_;
  std::optional<SentReply> reply_;
};

// Answers a callback call with a stored reply. Lives until gRPC has finished with it, which is
// before the message is released.
class StoredReplyReactor final : public grpc::ServerUnaryReactor {
 public:
  StoredReplyReactor(const SentReply& reply, AnyMessage* response, GuardLog& log)
      : address_(response) {
    if (reply.stored().code() != 0) return;
    Load(*static_cast<MessageLite*>(static_cast<void*>(response)),
         reply.Share(reply.stored().body()), log);
  }
  void OnDone() override {
    Unload(address_);
    const std::unique_ptr<StoredReplyReactor> self(this);
  }
  // No function here takes long: it needs no thread of its own.
  bool InternalInlineable() override { return true; }

 private:
  const void* const address_;
};

// A callback call: RunHandler has returned, gRPC waits for the decision.
class PendingCallbackCall final : public PendingCall,
                                  public std::enable_shared_from_this<PendingCallbackCall> {
 public:
  PendingCallbackCall(MethodHandler& inner, const MethodDescriptor& method,
                      GuardedServiceDependencies dependencies,
                      const MethodHandler::HandlerParameter& parameter)
      : inner_(inner), method_(method), dependencies_(dependencies), parameter_(parameter) {}

  bool sync() const override { return false; }
  grpc::ServerContextBase& context() override { return *parameter_.server_context; }
  const Message& request() override {
    return static_cast<const Message&>(*static_cast<MessageLite*>(parameter_.request));
  }
  std::shared_ptr<StreamWriter> MakeStreamWriter() override {
    return method_.server_streaming() ? MakeCallbackStreamWriter(*parameter_.call) : nullptr;
  }

  void Run(HandlerStart start) override {
    start_ = std::move(start);
    // This is a thread of the connection's, which also delivers the verdicts of other calls. It
    // must not wait for a handler, unless it can be done without. An alarm is no solution either:
    // all due alarms share a thread of gRPC's, so that one blocking handler stops the others
    // (docs/adr/0025).
    absl::AnyInvocable<void()> begin = [self = shared_from_this()] { self->RunHandler(); };
    if (AfterAnswers::Keep(begin)) return;
    if (dependencies_.handlers.Run(std::move(begin)) == WorkerPool::Outcome::kTaken) return;
    NotRun(start_, "too many handlers waited for a thread");
    Answer(SentReply(Overloaded()));
  }

  void Answer(SentReply reply) override {
    if (!dependencies_.others.follow()) {
      Send(reply);
      return;
    }
    // This thread may deliver the answers of other calls, as in Run().
    dependencies_.others.Run(
        [self = shared_from_this(), reply = std::move(reply)] { self->Send(reply); });
  }

 private:
  void Send(const SentReply& reply) {
    if (method_.server_streaming()) {
      StartStoredStream(parameter_, *method_.output_type(), reply, dependencies_.log);
      return;
    }
    SetMetadata(reply, context());
    StoredReplyReactor* reactor = nullptr;
    AnyCallbackHandler handler([&](grpc::CallbackServerContext* /*context*/,
                                   const AnyMessage* /*request*/,
                                   AnyMessage* response) -> grpc::ServerUnaryReactor* {
      reactor = std::make_unique<StoredReplyReactor>(reply, response, dependencies_.log).release();
      return reactor;
    });
    // Uses the handler only until it returns; releases the user's holder at
    // the end of the call.
    handler.RunHandler(parameter_);
    // Not by the handler: gRPC would send the reply while it holds a lock of the call. Without a
    // reactor it has answered the call itself.
    if (reactor != nullptr) reactor->Finish(StatusOf(reply.stored()));
  }

  void RunHandler() {
    // IsCancelled() is not valid before the inner handler runs.
    if (start_.needs_client && ClientDeadlinePassed(context())) {
      NotRun(start_, kClientLeft);
      Send(SentReply(Cancelled()));
      return;
    }
    std::optional<v1::Reply> instead;
    if (start_.last_look != nullptr) instead = start_.last_look();
    if (instead.has_value()) {
      Send(SentReply(*std::move(instead)));
    } else {
      inner_.RunHandler(parameter_);
    }
  }

  MethodHandler& inner_;
  const MethodDescriptor& method_;
  const GuardedServiceDependencies dependencies_;
  const MethodHandler::HandlerParameter parameter_;
  HandlerStart start_;
};

// Replaces the handler of the user's service.
class GuardedHandler final : public MethodHandler {
 public:
  GuardedHandler(MethodHandler& inner, MethodKind kind, const MethodDescriptor& method,
                 CallAdmitter* admitter, GuardedServiceDependencies dependencies)
      : inner_(inner),
        kind_(kind),
        method_(method),
        admitter_(admitter),
        dependencies_(dependencies) {}

  void* Deserialize(grpc_call* call, grpc_byte_buffer* request, grpc::Status* status,
                    void** handler_data) override {
    return inner_.Deserialize(call, request, status, handler_data);
  }

  void RunHandler(const HandlerParameter& parameter) override {
    // The handler must refuse a request that could not be parsed.
    if (admitter_ == nullptr || !parameter.status.ok()) {
      inner_.RunHandler(parameter);
    } else if (!IsCallback(kind_)) {
      const auto call =
          std::make_shared<PendingSyncCall>(inner_, method_, dependencies_.log, parameter);
      admitter_->Admit(call);
      call->WaitAndAct();
    } else {
      admitter_->Admit(
          std::make_shared<PendingCallbackCall>(inner_, method_, dependencies_, parameter));
    }
  }

 private:
  MethodHandler& inner_;
  const MethodKind kind_;
  const MethodDescriptor& method_;
  CallAdmitter* const admitter_;
  const GuardedServiceDependencies dependencies_;
};

class GuardedService final : public grpc::Service {
 public:
  GuardedService(const ServiceDescriptor& descriptor, absl::Span<const MethodKind> kinds,
                 absl::Span<CallAdmitter* const> admitters, GuardedServiceDependencies dependencies,
                 grpc::Service& original) {
    names_.reserve(static_cast<std::size_t>(descriptor.method_count()));
    for (int i = 0; i < descriptor.method_count(); ++i) {
      const auto index = static_cast<std::size_t>(i);
      const MethodDescriptor& method = *descriptor.method(i);
      names_.push_back(MethodPath(method));
      // Each object gets and owns its own handler: marking a method as callback deletes the
      // handler that it was added with.
      const auto handler = [&] {
        return std::make_unique<GuardedHandler>(*HandlerAccess::Get(original, i), kinds[index],
                                                method, admitters[index], dependencies)
            .release();
      };
      AddMethod(
          std::make_unique<RpcServiceMethod>(names_.back().c_str(), RpcTypeOf(method), handler())
              .release());
      if (IsCallback(kinds[index])) MarkMethodCallback(i, handler());
    }
  }

 private:
  // gRPC keeps pointers to them.
  std::vector<std::string> names_;
};

absl::Status Unsupported(absl::string_view name, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat(name, " cannot be guarded: ", what,
                   ". Unary and server-streaming methods of the sync and the callback API can"));
}

// The service's methods are called by their index: those of another class would answer calls of
// this one.
absl::Status CheckMethods(const ServiceDescriptor& descriptor, const grpc::Service& service) {
  const Methods& methods = MethodsOf(service);
  for (int i = 0; i < descriptor.method_count(); ++i) {
    const std::string path = MethodPath(*descriptor.method(i));
    const auto index = static_cast<std::size_t>(i);
    if (index >= methods.size()) {
      return absl::FailedPreconditionError(absl::StrCat("the service that Protect received for ",
                                                        descriptor.full_name(), " has no ", path));
    }
    if (methods[index]->name() != path) {
      return absl::FailedPreconditionError(
          absl::StrCat("the service that Protect received for ", descriptor.full_name(), " has ",
                       methods[index]->name(), " in the place of ", path));
    }
  }
  if (methods.size() == static_cast<std::size_t>(descriptor.method_count())) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the service that Protect received for ", descriptor.full_name(), " has ",
      methods[static_cast<std::size_t>(descriptor.method_count())]->name(), " in addition"));
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
  // GetHandler would dereference a null pointer.
  if (service.has_generic_methods()) {
    return Unsupported(descriptor.full_name(), "it has generic methods");
  }
  // The handler of the session calls the registered service, and that would be the guarded one:
  // without this check gRPC aborts the process at the first session.
  if (IsVirtual(service)) {
    return Unsupported(descriptor.full_name(), "it is a virtual service, for calls in a session");
  }
  if (absl::Status same = CheckMethods(descriptor, service); !same.ok()) return same;
  std::vector<MethodKind> kinds;
  for (int i = 0; i < descriptor.method_count(); ++i) {
    const MethodDescriptor& method = *descriptor.method(i);
    const MethodHandler* handler = HandlerAccess::Get(service, i);
    if (handler == nullptr) {
      return Unsupported(method.full_name(), "it is served from a completion queue");
    }
    if (!HasType(*handler)) {
      return absl::FailedPreconditionError(absl::StrCat(
          method.full_name(), " cannot be guarded: compile the generated service with RTTI"));
    }
    const std::optional<MethodKind> kind = KindOf(*handler);
    if (!kind.has_value() || !Fits(*kind, method)) {
      return Unsupported(method.full_name(), "it is raw, streamed, split or a session");
    }
    kinds.push_back(*kind);
  }
  return kinds;
}

bool HasInterceptors(const grpc::ServerBuilder& builder) {
  return !InterceptorsOf(builder).empty();
}

std::unique_ptr<grpc::Service> MakeGuardedService(const ServiceDescriptor& descriptor,
                                                  absl::Span<const MethodKind> kinds,
                                                  absl::Span<CallAdmitter* const> admitters,
                                                  GuardedServiceDependencies dependencies,
                                                  grpc::Service& original) {
  return std::make_unique<GuardedService>(descriptor, kinds, admitters, dependencies, original);
}

absl::Status CheckLayout() {
  ProbeHolder probe;
  // Volatile and fenced, so that the optimiser cannot see the real type of `probe`: it would
  // treat the call through AnyHolder as one that never happens (GCC 12 at -O2 does), and the
  // reads as independent of its writes. gRPC provides real holders as void*.
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
  const grpc::internal::CallbackServerStreamingHandler<v1::GetRequest, v1::GetResponse>
      callback_stream(nullptr);
  const grpc::internal::ServerStreamingHandler<ProbeService, v1::GetRequest, v1::GetResponse>
      sync_stream(nullptr, nullptr);
  if (KindOf(callback) != MethodKind::kCallbackUnary || KindOf(sync) != MethodKind::kSyncUnary ||
      KindOf(callback_stream) != MethodKind::kCallbackServerStreaming ||
      KindOf(sync_stream) != MethodKind::kSyncServerStreaming) {
    return absl::FailedPreconditionError("gRPC's handlers are not called as expected");
  }
  return absl::OkStatus();
}

}  // namespace idempotency::internal::grpc_internals
