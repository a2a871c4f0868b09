#include "server/rpc/queued_calls.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "server/rpc/inline_write_scope.h"
#include "server/rpc/serial_events.h"

namespace idempotency::internal {
namespace {

template <typename Call>
class EventOf final : public SerialEvents::Event {
 public:
  EventOf(Call& call, SerialEvents& events, void (Call::*happened)(bool))
      : SerialEvents::Event(events), call_(call), happened_(happened) {}

 private:
  void React(bool ok) override { (call_.*happened_)(ok); }

  Call& call_;
  void (Call::*const happened_)(bool);
};

}  // namespace

// One of the calls, until its memory is free.
class QueuedCalls::Counted {
 public:
  explicit Counted(QueuedCalls& calls) : calls_(calls) {
    MutexLock lock(calls_.mutex_);
    ++calls_.calls_;
  }
  ~Counted() {
    MutexLock lock(calls_.mutex_);
    if (--calls_.calls_ == 0) calls_.ended_.NotifyAll();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  QueuedCalls& calls_;
};

// A call's other side for its reactor, as gRPC's callback API has one (`Side`): what the three
// kinds have in common. gRPC's base class counts what must be over before OnDone(): the handler,
// Finish(), the call itself and every read and write. Deletes itself then.
template <typename Kind, typename Side, typename Method, typename Reactor>
class QueuedCalls::CallOnQueue : public Side {
 public:
  static void Request(QueuedCalls& calls, const Method& method) {
    auto* const call = std::make_unique<Kind>(calls, method).release();
    call->context_.AsyncNotifyWhenDone(&call->over_);
    method.request(&call->context_, &call->stream_, &calls.queue_, &call->arrived_);
  }

  CallOnQueue(QueuedCalls& calls, const Method& method)
      : counted_(calls), calls_(calls), method_(method) {}

  void Finish(grpc::Status status) override { stream_.Finish(status, &finished_); }
  void SendInitialMetadata() override {
    this->Ref();
    stream_.SendInitialMetadata(&metadata_sent_);
  }

 protected:
  // It has arrived: now, or after its message, Start() or Refuse().
  virtual void Begin() = 0;

  void Start(Reactor* reactor) {
    reactor_ = reactor;
    this->BindReactor(reactor_);
    Begun();
    this->MaybeDone(/*inline_ondone=*/true);
  }
  // In place of a reactor's Finish().
  void Refuse(const absl::Status& why) {
    if (const std::optional<std::string> pushback = PushbackOf(why)) {
      context_.AddTrailingMetadata(std::string(kPushbackMetadata), *pushback);
    }
    stream_.Finish(ToGrpcStatus(why), &finished_);
    Begun();
    this->MaybeDone(/*inline_ondone=*/true);
  }
  // The same without a status, which would wait for a caller that does not read.
  void Drop() {
    context_.TryCancel();
    Begun();
    // For Finish().
    this->MaybeDone(/*inline_ondone=*/true);
    this->MaybeDone(/*inline_ondone=*/true);
  }

  // Of a method with one request message, which is on its way. The handler is counted until then.
  void ReadRequest() { stream_.Read(&request_, &request_read_); }
  virtual void BeginWithRequest() {}

  QueuedMethods::Stream& stream() { return stream_; }
  Reactor* reactor() override { return reactor_; }
  QueuedCalls& calls() { return calls_; }
  const Method& method() const { return method_; }
  grpc::ServerContext& context() { return context_; }
  grpc::ByteBuffer& request() { return request_; }
  SerialEvents& events() { return events_; }
  SerialEvents::Event* finished() { return &finished_; }

 private:
  enum class Phase {
    kArrived,
    // Its end was taken from the queue before it was begun.
    kOverFirst,
    // It has a reactor, or is refused.
    kBegun,
  };

  void Begun() {
    if (std::exchange(phase_, Phase::kBegun) == Phase::kOverFirst) OnOver(true);
  }
  void OnArrived(bool ok) {
    // Otherwise the server is being shut down.
    if (!ok) return CallOnDone();
    Request(calls_, method_);
    absl::StatusOr<CallTable::Place> place = calls_.table_.Admit(context_.peer());
    if (!place.ok()) return RefuseOrDrop(place.status());
    place_ = *std::move(place);
    Begin();
  }
  void RefuseOrDrop(const absl::Status& why) {
    std::optional<CallTable::Place> place = calls_.table_.AdmitRefusal(context_.peer());
    if (!place) return Drop();
    place_ = *std::move(place);
    Refuse(why);
  }
  void OnRequestRead(bool ok) {
    if (!ok) return Refuse(InvalidField("request", "is missing or incomplete"));
    BeginWithRequest();
  }
  void OnOver(bool /*ok*/) {
    if (phase_ != Phase::kBegun) {
      phase_ = Phase::kOverFirst;
      return;
    }
    if (reactor_ != nullptr && context_.IsCancelled()) reactor_->OnCancel();
    this->MaybeDone(/*inline_ondone=*/true);
  }
  void OnMetadataSent(bool ok) {
    reactor_->OnSendInitialMetadataDone(ok);
    this->MaybeDone(/*inline_ondone=*/true);
  }
  void OnFinished(bool /*ok*/) { this->MaybeDone(/*inline_ondone=*/true); }

  void CallOnDone() override {
    if (reactor_ != nullptr) reactor_->OnDone();
    std::unique_ptr<CallOnQueue>(this).reset();
  }

  const Counted counted_;
  QueuedCalls& calls_;
  const Method& method_;
  CallTable::Place place_;
  grpc::GenericServerContext context_;
  QueuedMethods::Stream stream_{&context_};
  grpc::ByteBuffer request_;
  Reactor* reactor_ = nullptr;
  Phase phase_ = Phase::kArrived;
  SerialEvents events_;
  EventOf<CallOnQueue> arrived_{*this, events_, &CallOnQueue::OnArrived};
  EventOf<CallOnQueue> request_read_{*this, events_, &CallOnQueue::OnRequestRead};
  EventOf<CallOnQueue> over_{*this, events_, &CallOnQueue::OnOver};
  EventOf<CallOnQueue> metadata_sent_{*this, events_, &CallOnQueue::OnMetadataSent};
  EventOf<CallOnQueue> finished_{*this, events_, &CallOnQueue::OnFinished};
};

class QueuedCalls::UnaryCallOnQueue final
    : public CallOnQueue<UnaryCallOnQueue, grpc::ServerCallbackUnary, QueuedMethods::Unary,
                         grpc::ServerUnaryReactor> {
 public:
  using CallOnQueue::CallOnQueue;

  void Finish(grpc::Status status) override {
    if (!status.ok()) return CallOnQueue::Finish(std::move(status));
    stream().WriteAndFinish(response_, grpc::WriteOptions(), status, finished());
  }

 private:
  void Begin() override { ReadRequest(); }
  void BeginWithRequest() override { Start(method().begin(&context(), &request(), &response_)); }

  grpc::ByteBuffer response_;
};

class QueuedCalls::ServerStreamOnQueue final
    : public CallOnQueue<ServerStreamOnQueue, grpc::ServerCallbackWriter<grpc::ByteBuffer>,
                         QueuedMethods::ServerStream, grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  using CallOnQueue::CallOnQueue;

  void Write(const grpc::ByteBuffer* message, grpc::WriteOptions options) override {
    Ref();
    stream().Write(*message, options, &written_);
  }
  void WriteAndFinish(const grpc::ByteBuffer* message, grpc::WriteOptions options,
                      grpc::Status status) override {
    stream().WriteAndFinish(*message, options, status, finished());
  }

 private:
  void Begin() override { ReadRequest(); }
  void BeginWithRequest() override { Start(method().begin(&context(), &request())); }
  void OnWritten(bool ok) {
    reactor()->OnWriteDone(ok);
    MaybeDone(/*inline_ondone=*/true);
  }

  EventOf<ServerStreamOnQueue> written_{*this, events(), &ServerStreamOnQueue::OnWritten};
};

class QueuedCalls::BidiStreamOnQueue final
    : public CallOnQueue<
          BidiStreamOnQueue, grpc::ServerCallbackReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>,
          QueuedMethods::BidiStream, grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  using CallOnQueue::CallOnQueue;

  void Read(grpc::ByteBuffer* message) override {
    Ref();
    stream().Read(message, &read_);
  }
  void Write(const grpc::ByteBuffer* message, grpc::WriteOptions options) override {
    Ref();
    InlineWriteScope::Begin(calls().queue_, [&] { stream().Write(*message, options, &written_); });
  }
  void WriteAndFinish(const grpc::ByteBuffer* message, grpc::WriteOptions options,
                      grpc::Status status) override {
    stream().WriteAndFinish(*message, options, status, finished());
  }

 private:
  void Begin() override { Start(method().begin(&context())); }
  void OnRead(bool ok) {
    reactor()->OnReadDone(ok);
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnWritten(bool ok) {
    reactor()->OnWriteDone(ok);
    MaybeDone(/*inline_ondone=*/true);
  }

  EventOf<BidiStreamOnQueue> read_{*this, events(), &BidiStreamOnQueue::OnRead};
  EventOf<BidiStreamOnQueue> written_{*this, events(), &BidiStreamOnQueue::OnWritten};
};

void QueuedCalls::Request(int of_each_method) {
  for (int i = 0; i < of_each_method; ++i) {
    for (const auto& method : methods_.unary()) UnaryCallOnQueue::Request(*this, method);
    for (const auto& method : methods_.server_streams()) {
      ServerStreamOnQueue::Request(*this, method);
    }
    for (const auto& method : methods_.bidi_streams()) BidiStreamOnQueue::Request(*this, method);
  }
}

void QueuedCalls::AwaitEnd() {
  MutexLock lock(mutex_);
  while (calls_ > 0) ended_.Wait(lock);
}

}  // namespace idempotency::internal
