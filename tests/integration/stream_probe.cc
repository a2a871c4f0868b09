#include "tests/integration/stream_probe.h"

#include <grpcpp/generic/generic_stub.h>
#include <pthread.h>

#include <stdexcept>
#include <thread>
#include <utility>

#include "core/mutex.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal::testing {
namespace {

void ThrowIfRequested(const ActRequest& request) {
  if (request.account() == kThrowing) throw std::runtime_error("as the test requests");
}

class SyncWriter final : public ProbeStreamWriter {
 public:
  SyncWriter(grpc::ServerContext& context, grpc::ServerWriter<ActReply>& writer)
      : context_(context), writer_(writer) {}
  grpc::ServerContextBase& context() override { return context_; }
  void SendInitialMetadata() override { writer_.SendInitialMetadata(); }
  bool Write(const ActReply& reply, grpc::WriteOptions options) override {
    return writer_.Write(reply, options);
  }
  void WriteAndFinish(const ActReply& reply) override { writer_.WriteLast(reply, {}); }

 private:
  grpc::ServerContext& context_;
  grpc::ServerWriter<ActReply>& writer_;
};

class SyncStreamProbe final : public StreamProbe, public Probe::Service {
 public:
  explicit SyncStreamProbe(StreamHandler handler) : handler_(std::move(handler)) {}
  grpc::Service* service() override { return this; }
  grpc::Status Watch(grpc::ServerContext* context, const ActRequest* request,
                     grpc::ServerWriter<ActReply>* writer) override {
    SyncWriter stream(*context, *writer);
    const grpc::Status status = handler_(*request, stream);
    ThrowIfRequested(*request);
    return status;
  }

 private:
  const StreamHandler handler_;
};

// Turns a handler that blocks into reactions. Exists until OnDone.
class ScriptedReactor final : public grpc::ServerWriteReactor<ActReply>, public ProbeStreamWriter {
 public:
  explicit ScriptedReactor(grpc::CallbackServerContext& context) : context_(context) {}

  void Run(const StreamHandler& handler, const ActRequest& request) {
    const grpc::Status status = handler(request, *this);
    if (last_ != nullptr) {
      StartWriteAndFinish(last_, {}, status);
    } else {
      Finish(status);
    }
  }

  grpc::ServerContextBase& context() override { return context_; }
  void SendInitialMetadata() override {
    StartSendInitialMetadata();
    AwaitDone();
  }
  bool Write(const ActReply& reply, grpc::WriteOptions options) override {
    StartWrite(&reply, options);
    return AwaitDone();
  }
  void WriteAndFinish(const ActReply& reply) override { last_ = &reply; }

  void OnSendInitialMetadataDone(bool ok) override { Done(ok); }
  void OnWriteDone(bool ok) override { Done(ok); }
  void OnDone() override { const std::unique_ptr<ScriptedReactor> self(this); }

 private:
  void Done(bool ok) {
    MutexLock lock(mutex_);
    done_ = ok;
    changed_.NotifyAll();
  }
  bool AwaitDone() {
    MutexLock lock(mutex_);
    while (!done_.has_value()) changed_.Wait(lock);
    const bool ok = *done_;
    done_.reset();
    return ok;
  }

  grpc::CallbackServerContext& context_;
  const ActReply* last_ = nullptr;
  Mutex mutex_;
  CondVar changed_;
  std::optional<bool> done_ ABSL_GUARDED_BY(mutex_);
};

class CallbackStreamProbe final : public StreamProbe,
                                  public Probe::WithCallbackMethod_Watch<Probe::Service> {
 public:
  explicit CallbackStreamProbe(StreamHandler handler) : handler_(std::move(handler)) {}
  ~CallbackStreamProbe() override {
    std::vector<std::thread> threads;
    {
      MutexLock lock(mutex_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }
  grpc::Service* service() override { return this; }
  grpc::ServerWriteReactor<ActReply>* Watch(grpc::CallbackServerContext* context,
                                            const ActRequest* request) override {
    ThrowIfRequested(*request);
    auto* const reactor = std::make_unique<ScriptedReactor>(*context).release();
    MutexLock lock(mutex_);
    threads_.emplace_back([this, reactor, request] {
      pthread_setname_np(pthread_self(), "stream-handler");
      reactor->Run(handler_, *request);
    });
    return reactor;
  }

 private:
  const StreamHandler handler_;
  Mutex mutex_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

std::string Bytes(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.DumpToSingleSlice(&slice).ok()) return "";
  return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
}

std::multimap<std::string, std::string> Copy(
    const std::multimap<grpc::string_ref, grpc::string_ref>& entries) {
  std::multimap<std::string, std::string> copy;
  for (const auto& [key, value] : entries) {
    copy.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  }
  return copy;
}

}  // namespace

std::unique_ptr<StreamProbe> StreamProbe::Make(Api api, StreamHandler handler) {
  if (api == Api::kSync) return std::make_unique<SyncStreamProbe>(std::move(handler));
  return std::make_unique<CallbackStreamProbe>(std::move(handler));
}

std::string StreamCall::End::Trailer(const std::string& key) const {
  const auto found = trailing_metadata.find(key);
  return found == trailing_metadata.end() ? "" : found->second;
}

std::optional<Reason> StreamCall::End::reason() const { return ReasonOf(FromGrpcStatus(status)); }

struct StreamCall::State {
  // True if the operation succeeded.
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  }

  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  std::unique_ptr<grpc::GenericStub> stub;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  grpc::ByteBuffer received;
  bool reading = false;
  // For a read whose end ReadsBy saw.
  std::optional<bool> read;
  bool finished = false;
  End end;
};

StreamCall::StreamCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& key,
                       const ActRequest& request, std::chrono::milliseconds timeout)
    : state_(std::make_unique<State>()) {
  state_->context.set_deadline(std::chrono::system_clock::now() + timeout);
  if (!key.empty()) state_->context.AddMetadata("idempotency-key", key);
  state_->stub = std::make_unique<grpc::GenericStub>(channel);
  state_->call = state_->stub->PrepareCall(&state_->context, "/idempotency.testing.Probe/Watch",
                                           &state_->queue);
  state_->call->StartCall(nullptr);
  state_->Await();
  const grpc::Slice slice(request.SerializeAsString());
  state_->call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
  state_->Await();
}

StreamCall::~StreamCall() {
  if (!state_->finished) {
    Cancel();
    Finish();
  }
}

std::optional<std::string> StreamCall::Read() {
  if (!state_->reading) state_->call->Read(&state_->received, nullptr);
  const bool ok = state_->read.has_value() ? *state_->read : state_->Await();
  state_->reading = false;
  state_->read.reset();
  if (!ok) return std::nullopt;
  state_->end.messages.push_back(Bytes(state_->received));
  return state_->end.messages.back();
}

bool StreamCall::ReadsBy(std::chrono::system_clock::time_point deadline) {
  if (!state_->reading) state_->call->Read(&state_->received, nullptr);
  state_->reading = true;
  void* tag = nullptr;
  bool ok = false;
  if (state_->queue.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) {
    return false;
  }
  state_->read = ok;
  return true;
}

StreamCall::End StreamCall::Finish() {
  while (Read().has_value()) {
  }
  state_->call->Finish(&state_->end.status, nullptr);
  state_->Await();
  state_->finished = true;
  state_->end.initial_metadata = Copy(state_->context.GetServerInitialMetadata());
  state_->end.trailing_metadata = Copy(state_->context.GetServerTrailingMetadata());
  return state_->end;
}

void StreamCall::Cancel() { state_->context.TryCancel(); }

}  // namespace idempotency::internal::testing
