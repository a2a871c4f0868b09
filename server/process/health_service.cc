#include "server/process/health_service.h"

#include <memory>
#include <optional>
#include <utility>

namespace idempotency::internal {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// The name that a request contains; nothing if it is none of a service.
std::optional<std::string> NameIn(grpc::ByteBuffer* bytes) {
  HealthCheckRequest request;
  if (!grpc::SerializationTraits<HealthCheckRequest>::Deserialize(bytes, &request).ok() ||
      request.service().size() > HealthService::kMaxNameBytes) {
    return std::nullopt;
  }
  return request.service();
}

grpc::Status Unreadable() {
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                      "the request is no HealthCheckRequest, or its service's name is too long");
}

void Serialise(HealthCheckResponse::ServingStatus status, grpc::ByteBuffer* bytes) {
  HealthCheckResponse response;
  response.set_status(status);
  bool own_buffer = false;
  grpc::SerializationTraits<HealthCheckResponse>::Serialize(response, bytes, &own_buffer);
}

}  // namespace

// Deletes itself when gRPC is done with it.
class HealthService::CheckCall final : public grpc::ServerUnaryReactor {
 public:
  explicit CheckCall(const grpc::Status& status) { Finish(status); }
  void OnDone() override { std::unique_ptr<CheckCall>(this).reset(); }
};

// Deletes itself when gRPC is done with it.
class HealthService::WatchCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // Guarded by the service's lock.
  struct State {
    Status status = HealthCheckResponse::UNKNOWN;
    std::optional<Status> sent;
    bool writing = false;
    // The caller has gone.
    bool over = false;
    bool finished = false;
    // Owned by gRPC while `writing` is set.
    grpc::ByteBuffer message;
  };

  WatchCall(HealthService& service, std::string name) : service_(service), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  State& state() { return state_; }

  void OnWriteDone(bool ok) override { service_.OnWritten(*this, ok); }
  void OnCancel() override { service_.OnGone(*this); }
  void OnDone() override {
    service_.Remove(*this);
    std::unique_ptr<WatchCall>(this).reset();
  }

 private:
  HealthService& service_;
  const std::string name_;
  State state_;
};

void HealthService::Register(grpc::ServerBuilder& builder, QueuedMethods& methods) {
  rpc_.Register(builder, methods);
  methods.Add(QueuedMethods::Unary{
      rpc_.Add("Check"),
      [this](grpc::ServerContextBase* /*context*/, grpc::ByteBuffer* request,
             grpc::ByteBuffer* response) { return BeginCheck(request, response); }});
  methods.Add(QueuedMethods::ServerStream{
      rpc_.Add("Watch"), [this](grpc::ServerContextBase* /*context*/, grpc::ByteBuffer* request) {
        return BeginWatch(request);
      }});
}

void HealthService::SetServingStatus(const std::string& name, bool serving) {
  MutexLock lock(mutex_);
  Set(name, serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
}

void HealthService::SetServingStatus(bool serving) {
  MutexLock lock(mutex_);
  for (const auto& [name, status] : std::map<std::string, Status>(statuses_)) {
    Set(name, serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
  }
}

void HealthService::Shutdown() {
  SetServingStatus(false);
  MutexLock lock(mutex_);
  shut_down_ = true;
}

grpc::ServerUnaryReactor* HealthService::BeginCheck(grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  grpc::Status status = Unreadable();
  if (const std::optional<std::string> name = NameIn(request)) {
    MutexLock lock(mutex_);
    const Status of_service = StatusOf(*name);
    status = of_service == HealthCheckResponse::SERVICE_UNKNOWN
                 ? grpc::Status(grpc::StatusCode::NOT_FOUND, "service name unknown")
                 : grpc::Status::OK;
    Serialise(of_service, response);
  }
  // It deletes itself in OnDone.
  return std::make_unique<CheckCall>(status).release();
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::BeginWatch(grpc::ByteBuffer* request) {
  std::optional<std::string> name = NameIn(request);
  // It deletes itself in OnDone.
  auto* const watch = std::make_unique<WatchCall>(*this, name.value_or(std::string())).release();
  MutexLock lock(mutex_);
  if (!name) {
    // Its caller may go before it has received this.
    watch->state().finished = true;
    watch->Finish(Unreadable());
    return watch;
  }
  watches_.insert(watch);
  Publish(*watch, StatusOf(*name));
  return watch;
}

HealthService::Status HealthService::StatusOf(const std::string& name) const {
  const auto found = statuses_.find(name);
  return found == statuses_.end() ? HealthCheckResponse::SERVICE_UNKNOWN : found->second;
}

void HealthService::Set(const std::string& name, Status status) {
  if (shut_down_) return;
  statuses_[name] = status;
  for (WatchCall* const watch : watches_) {
    if (watch->name() == name) Publish(*watch, status);
  }
}

void HealthService::Publish(WatchCall& watch, Status status) {
  watch.state().status = status;
  Step(watch);
}

// gRPC calls back from neither of the two.
void HealthService::Step(WatchCall& watch) {
  WatchCall::State& state = watch.state();
  if (state.writing || state.finished) return;
  if (state.over) {
    state.finished = true;
    watch.Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has gone"));
  } else if (state.sent != state.status) {
    state.sent = state.status;
    state.writing = true;
    Serialise(state.status, &state.message);
    watch.StartWrite(&state.message);
  }
}

void HealthService::OnWritten(WatchCall& watch, bool ok) {
  MutexLock lock(mutex_);
  watch.state().writing = false;
  if (!ok) watch.state().over = true;
  Step(watch);
}

void HealthService::OnGone(WatchCall& watch) {
  MutexLock lock(mutex_);
  watch.state().over = true;
  Step(watch);
}

void HealthService::Remove(WatchCall& watch) {
  MutexLock lock(mutex_);
  watches_.erase(&watch);
}

}  // namespace idempotency::internal
