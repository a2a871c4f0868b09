#include "tests/support/probe_service.h"

#include <pthread.h>

#include <stdexcept>
#include <utility>

namespace idempotency::internal::testing {
namespace {

void ThrowIfRequested(const ActRequest& request) {
  if (request.account() == kThrowing) throw std::runtime_error("as the test requests");
}

class SyncProbe final : public ProbeService, public Probe::Service {
 public:
  explicit SyncProbe(ProbeHandler handler) : handler_(std::move(handler)) {}
  grpc::Service* service() override { return this; }

  grpc::Status Act(grpc::ServerContext* context, const ActRequest* request,
                   ActReply* reply) override {
    ThrowIfRequested(*request);
    return handler_(*context, *request, *reply);
  }
  grpc::Status Look(grpc::ServerContext* context, const ActRequest* request,
                    ActReply* reply) override {
    return handler_(*context, *request, *reply);
  }
  grpc::Status Watch(grpc::ServerContext* /*context*/, const ActRequest* request,
                     grpc::ServerWriter<ActReply>* writer) override {
    ActReply reply;
    for (int i = 0; i < request->amount(); ++i) {
      reply.set_total(i);
      writer->Write(reply);
    }
    return grpc::Status::OK;
  }
  grpc::Status Collect(grpc::ServerContext* /*context*/, grpc::ServerReader<ActRequest>* reader,
                       ActReply* reply) override {
    ActRequest request;
    while (reader->Read(&request)) reply->set_total(reply->total() + request.amount());
    return grpc::Status::OK;
  }
  grpc::Status Talk(grpc::ServerContext* /*context*/,
                    grpc::ServerReaderWriter<ActReply, ActRequest>* stream) override {
    ActRequest request;
    ActReply reply;
    while (stream->Read(&request)) {
      reply.set_total(request.amount());
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }

 private:
  const ProbeHandler handler_;
};

// Sends `amount` replies.
class Counter final : public grpc::ServerWriteReactor<ActReply> {
 public:
  explicit Counter(std::int64_t amount) : amount_(amount) { Next(); }
  void OnWriteDone(bool ok) override {
    if (ok) {
      Next();
    } else {
      Finish(grpc::Status::OK);
    }
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    if (sent_ == amount_) {
      Finish(grpc::Status::OK);
      return;
    }
    reply_.set_total(sent_++);
    StartWrite(&reply_);
  }

  const std::int64_t amount_;
  std::int64_t sent_ = 0;
  ActReply reply_;
};

class CallbackProbe final
    : public ProbeService,
      public Probe::WithCallbackMethod_Act<
          Probe::WithCallbackMethod_Look<Probe::WithCallbackMethod_Watch<Probe::Service>>> {
 public:
  explicit CallbackProbe(ProbeHandler handler) : handler_(std::move(handler)) {}
  ~CallbackProbe() override {
    std::vector<std::thread> threads;
    {
      MutexLock lock(mutex_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }
  grpc::Service* service() override { return this; }

  grpc::ServerUnaryReactor* Act(grpc::CallbackServerContext* context, const ActRequest* request,
                                ActReply* reply) override {
    ThrowIfRequested(*request);
    return Run(context, request, reply);
  }
  grpc::ServerUnaryReactor* Look(grpc::CallbackServerContext* context, const ActRequest* request,
                                 ActReply* reply) override {
    return Run(context, request, reply);
  }
  grpc::ServerWriteReactor<ActReply>* Watch(grpc::CallbackServerContext* /*context*/,
                                            const ActRequest* request) override {
    return new Counter(request->amount());  // deletes itself in OnDone, as reactors do
  }

 private:
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context, const ActRequest* request,
                                ActReply* reply) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    MutexLock lock(mutex_);
    threads_.emplace_back([this, context, request, reply, reactor] {
      pthread_setname_np(pthread_self(), "probe-handler");
      reactor->Finish(handler_(*context, *request, *reply));
    });
    return reactor;
  }

  const ProbeHandler handler_;
  Mutex mutex_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<ProbeService> ProbeService::Make(Api api, ProbeHandler handler) {
  if (api == Api::kSync) return std::make_unique<SyncProbe>(std::move(handler));
  return std::make_unique<CallbackProbe>(std::move(handler));
}

}  // namespace idempotency::internal::testing
