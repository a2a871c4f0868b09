#include "server/rpc/queued_calls.h"

#include <memory>
#include <utility>

#include "server/rpc/ended_writes.h"
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

// Each of the three is a call's other side for its reactor, as gRPC's callback API has one. gRPC's
// base class counts what must be over before OnDone(): the handler, Finish(), the call itself and
// every read and write. Each deletes itself then.

class QueuedCalls::UnaryCallOnQueue final : public grpc::ServerCallbackUnary {
 public:
  static void Request(QueuedCalls& calls, const QueuedMethods::Unary& method) {
    auto* const call = std::make_unique<UnaryCallOnQueue>(calls, method).release();
    call->context_.AsyncNotifyWhenDone(&call->over_);
    method.request(&call->context_, &call->request_, &call->responder_, &calls.queue_,
                   &call->arrived_);
  }

  UnaryCallOnQueue(QueuedCalls& calls, const QueuedMethods::Unary& method)
      : counted_(calls), calls_(calls), method_(method) {}

  void Finish(grpc::Status status) override {
    if (status.ok()) {
      responder_.Finish(response_, status, &finished_);
    } else {
      responder_.FinishWithError(status, &finished_);
    }
  }
  void SendInitialMetadata() override {
    Ref();
    responder_.SendInitialMetadata(&metadata_sent_);
  }

 private:
  void OnArrived(bool ok) {
    // Otherwise the server is being shut down.
    if (!ok) return CallOnDone();
    Request(calls_, method_);
    reactor_ = method_.begin(&context_, &request_, &response_);
    BindReactor(reactor_);
    if (over_first_) OnOver(true);
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnOver(bool /*ok*/) {
    over_first_ = reactor_ == nullptr;
    if (over_first_) return;
    if (context_.IsCancelled()) reactor_->OnCancel();
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnMetadataSent(bool ok) {
    reactor_->OnSendInitialMetadataDone(ok);
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnFinished(bool /*ok*/) { MaybeDone(/*inline_ondone=*/true); }

  grpc::ServerUnaryReactor* reactor() override { return reactor_; }
  void CallOnDone() override {
    if (reactor_ != nullptr) reactor_->OnDone();
    std::unique_ptr<UnaryCallOnQueue>(this).reset();
  }

  const Counted counted_;
  QueuedCalls& calls_;
  const QueuedMethods::Unary& method_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  QueuedMethods::Unary::Responder responder_{&context_};
  grpc::ServerUnaryReactor* reactor_ = nullptr;
  // Its end was taken from the queue before its arrival.
  bool over_first_ = false;
  SerialEvents events_;
  EventOf<UnaryCallOnQueue> arrived_{*this, events_, &UnaryCallOnQueue::OnArrived};
  EventOf<UnaryCallOnQueue> over_{*this, events_, &UnaryCallOnQueue::OnOver};
  EventOf<UnaryCallOnQueue> metadata_sent_{*this, events_, &UnaryCallOnQueue::OnMetadataSent};
  EventOf<UnaryCallOnQueue> finished_{*this, events_, &UnaryCallOnQueue::OnFinished};
};

class QueuedCalls::ServerStreamOnQueue final : public grpc::ServerCallbackWriter<grpc::ByteBuffer> {
 public:
  static void Request(QueuedCalls& calls, const QueuedMethods::ServerStream& method) {
    auto* const call = std::make_unique<ServerStreamOnQueue>(calls, method).release();
    call->context_.AsyncNotifyWhenDone(&call->over_);
    method.request(&call->context_, &call->request_, &call->responder_, &calls.queue_,
                   &call->arrived_);
  }

  ServerStreamOnQueue(QueuedCalls& calls, const QueuedMethods::ServerStream& method)
      : counted_(calls), calls_(calls), method_(method) {}

  void Finish(grpc::Status status) override { responder_.Finish(status, &finished_); }
  void SendInitialMetadata() override {
    Ref();
    responder_.SendInitialMetadata(&metadata_sent_);
  }
  void Write(const grpc::ByteBuffer* message, grpc::WriteOptions options) override {
    Ref();
    responder_.Write(*message, options, &written_);
  }
  void WriteAndFinish(const grpc::ByteBuffer* message, grpc::WriteOptions options,
                      grpc::Status status) override {
    responder_.WriteAndFinish(*message, options, status, &finished_);
  }

 private:
  void OnArrived(bool ok) {
    // Otherwise the server is being shut down.
    if (!ok) return CallOnDone();
    Request(calls_, method_);
    reactor_ = method_.begin(&context_, &request_);
    BindReactor(reactor_);
    if (over_first_) OnOver(true);
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnOver(bool /*ok*/) {
    over_first_ = reactor_ == nullptr;
    if (over_first_) return;
    if (context_.IsCancelled()) reactor_->OnCancel();
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnMetadataSent(bool ok) {
    reactor_->OnSendInitialMetadataDone(ok);
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnWritten(bool ok) {
    reactor_->OnWriteDone(ok);
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnFinished(bool /*ok*/) { MaybeDone(/*inline_ondone=*/true); }

  grpc::ServerWriteReactor<grpc::ByteBuffer>* reactor() override { return reactor_; }
  void CallOnDone() override {
    if (reactor_ != nullptr) reactor_->OnDone();
    std::unique_ptr<ServerStreamOnQueue>(this).reset();
  }

  const Counted counted_;
  QueuedCalls& calls_;
  const QueuedMethods::ServerStream& method_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  QueuedMethods::ServerStream::Responder responder_{&context_};
  grpc::ServerWriteReactor<grpc::ByteBuffer>* reactor_ = nullptr;
  // Its end was taken from the queue before its arrival.
  bool over_first_ = false;
  SerialEvents events_;
  EventOf<ServerStreamOnQueue> arrived_{*this, events_, &ServerStreamOnQueue::OnArrived};
  EventOf<ServerStreamOnQueue> over_{*this, events_, &ServerStreamOnQueue::OnOver};
  EventOf<ServerStreamOnQueue> metadata_sent_{*this, events_, &ServerStreamOnQueue::OnMetadataSent};
  EventOf<ServerStreamOnQueue> written_{*this, events_, &ServerStreamOnQueue::OnWritten};
  EventOf<ServerStreamOnQueue> finished_{*this, events_, &ServerStreamOnQueue::OnFinished};
};

class QueuedCalls::BidiStreamOnQueue final
    : public grpc::ServerCallbackReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  static void Request(QueuedCalls& calls, const QueuedMethods::BidiStream& method) {
    auto* const call = std::make_unique<BidiStreamOnQueue>(calls, method).release();
    call->context_.AsyncNotifyWhenDone(&call->over_);
    method.request(&call->context_, &call->responder_, &calls.queue_, &call->arrived_);
  }

  BidiStreamOnQueue(QueuedCalls& calls, const QueuedMethods::BidiStream& method)
      : counted_(calls), calls_(calls), method_(method) {}

  void Finish(grpc::Status status) override { responder_.Finish(status, &finished_); }
  void SendInitialMetadata() override {
    Ref();
    responder_.SendInitialMetadata(&metadata_sent_);
  }
  void Read(grpc::ByteBuffer* message) override {
    Ref();
    responder_.Read(message, &read_);
  }
  void Write(const grpc::ByteBuffer* message, grpc::WriteOptions options) override {
    Ref();
    EndedWrites::Begin(calls_.queue_, [&] { responder_.Write(*message, options, &written_); });
  }
  void WriteAndFinish(const grpc::ByteBuffer* message, grpc::WriteOptions options,
                      grpc::Status status) override {
    responder_.WriteAndFinish(*message, options, status, &finished_);
  }

 private:
  void OnArrived(bool ok) {
    // Otherwise the server is being shut down.
    if (!ok) return CallOnDone();
    Request(calls_, method_);
    reactor_ = method_.begin(&context_);
    BindReactor(reactor_);
    if (over_first_) OnOver(true);
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnOver(bool /*ok*/) {
    over_first_ = reactor_ == nullptr;
    if (over_first_) return;
    if (context_.IsCancelled()) reactor_->OnCancel();
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnMetadataSent(bool ok) {
    reactor_->OnSendInitialMetadataDone(ok);
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnRead(bool ok) {
    reactor_->OnReadDone(ok);
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnWritten(bool ok) {
    reactor_->OnWriteDone(ok);
    MaybeDone(/*inline_ondone=*/true);
  }
  void OnFinished(bool /*ok*/) { MaybeDone(/*inline_ondone=*/true); }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* reactor() override {
    return reactor_;
  }
  void CallOnDone() override {
    if (reactor_ != nullptr) reactor_->OnDone();
    std::unique_ptr<BidiStreamOnQueue>(this).reset();
  }

  const Counted counted_;
  QueuedCalls& calls_;
  const QueuedMethods::BidiStream& method_;
  grpc::ServerContext context_;
  QueuedMethods::BidiStream::Responder responder_{&context_};
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* reactor_ = nullptr;
  // Its end was taken from the queue before its arrival.
  bool over_first_ = false;
  SerialEvents events_;
  EventOf<BidiStreamOnQueue> arrived_{*this, events_, &BidiStreamOnQueue::OnArrived};
  EventOf<BidiStreamOnQueue> over_{*this, events_, &BidiStreamOnQueue::OnOver};
  EventOf<BidiStreamOnQueue> metadata_sent_{*this, events_, &BidiStreamOnQueue::OnMetadataSent};
  EventOf<BidiStreamOnQueue> read_{*this, events_, &BidiStreamOnQueue::OnRead};
  EventOf<BidiStreamOnQueue> written_{*this, events_, &BidiStreamOnQueue::OnWritten};
  EventOf<BidiStreamOnQueue> finished_{*this, events_, &BidiStreamOnQueue::OnFinished};
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
