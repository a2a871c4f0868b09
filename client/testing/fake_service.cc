#include "client/testing/fake_service.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/client/channel_arguments.h"

namespace idempotency::internal::testing {
namespace {

constexpr std::chrono::seconds kPatience{10};

void Fill(const v1::ReserveRequest& request, v1::ReserveResponse& response) {
  response.set_record_id(request.record_key().key());
  response.mutable_reserved()->set_attempt(7);
}
void Fill(const v1::CompleteRequest& request, v1::CompleteResponse& response) {
  response.mutable_completed_at()->set_seconds(request.reply().code());
}
void Fill(const v1::ReleaseRequest&, v1::ReleaseResponse&) {}
void Fill(const v1::ExtendRequest& request, v1::ExtendResponse& response) {
  *response.mutable_lease_remaining() = request.lease();
}
void Fill(const v1::GetRequest&, v1::GetResponse& response) {
  // Over gRPC's own limit of 4 MiB.
  response.mutable_record()->mutable_reply()->set_body(std::string(5 << 20, 'x'));
}

// Ends when the client cancels. Deletes itself, as reactors do.
class PendingCall final : public grpc::ServerUnaryReactor {
 private:
  void OnCancel() override { Finish(grpc::Status(grpc::StatusCode::CANCELLED, "held")); }
  void OnDone() override { delete this; }
};

}  // namespace

// Outlives the service while a session ends.
class FakeService::State {
 public:
  Mutex mutex;
  CondVar changed;
  grpc::Status failure ABSL_GUARDED_BY(mutex);
  bool keep ABSL_GUARDED_BY(mutex) = false;
  std::size_t held ABSL_GUARDED_BY(mutex) = 0;
  std::chrono::nanoseconds time_given ABSL_GUARDED_BY(mutex){};
  bool have_sessions ABSL_GUARDED_BY(mutex) = true;
  std::optional<v1::SessionResponse> first_frame ABSL_GUARDED_BY(mutex);
  grpc::Status refusal ABSL_GUARDED_BY(mutex);
  Script script ABSL_GUARDED_BY(mutex);
  int opened ABSL_GUARDED_BY(mutex) = 0;
  int unary_calls ABSL_GUARDED_BY(mutex) = 0;
  int cancels ABSL_GUARDED_BY(mutex) = 0;
  std::vector<v1::SessionRequest> frames ABSL_GUARDED_BY(mutex);
  std::set<FakeSession*> sessions ABSL_GUARDED_BY(mutex);

  // False when the session holds the operation.
  void Handle(FakeSession& session, const v1::SessionOperation& operation,
              v1::SessionResponse& response) {
    Script current;
    {
      MutexLock lock(mutex);
      current = script;
    }
    if (current && current(session, operation, response)) return;
    MutexLock lock(mutex);
    if (operation.has_cancel()) {
      ++cancels;
    } else if (operation.has_reserve() && keep) {
      time_given = std::chrono::seconds(operation.timeout().seconds()) +
                   std::chrono::nanoseconds(operation.timeout().nanos());
      ++held;
    } else if (!failure.ok()) {
      v1::SessionAnswer& answer = *response.add_answers();
      answer.set_id(operation.id());
      answer.mutable_error()->set_code(failure.error_code());
      answer.mutable_error()->set_message(failure.error_message());
      answer.mutable_error()->set_details(failure.error_details());
    } else {
      AnswerAsUsual(operation, response);
    }
    changed.NotifyAll();
  }
};

namespace {

// Deletes itself, as reactors do.
class SessionReactor final
    : public FakeSession,
      public grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse> {
 public:
  using Handle = std::function<void(FakeSession&, const v1::SessionRequest&, v1::SessionResponse&)>;

  SessionReactor(std::optional<v1::SessionResponse> first_frame, Handle handle,
                 std::function<void(FakeSession*)> done)
      : handle_(std::move(handle)), done_(std::move(done)) {
    if (first_frame) Send(*std::move(first_frame));
    StartRead(&request_);
  }

  void Send(v1::SessionResponse frame) override {
    MutexLock lock(mutex_);
    if (finished_) return;
    out_.push_back(std::move(frame));
    if (out_.size() == 1) StartWrite(&out_.front());
  }
  void End(const grpc::Status& status) override {
    MutexLock lock(mutex_);
    if (finished_) return;
    finished_ = true;
    Finish(status);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return End(grpc::Status::OK);
    v1::SessionResponse response;
    handle_(*this, request_, response);
    if (response.answers_size() > 0) Send(std::move(response));
    StartRead(&request_);
  }
  void OnWriteDone(bool) override {
    MutexLock lock(mutex_);
    out_.pop_front();
    if (!out_.empty() && !finished_) StartWrite(&out_.front());
  }
  void OnCancel() override { End(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled")); }
  void OnDone() override {
    done_(this);
    delete this;
  }

  const Handle handle_;
  const std::function<void(FakeSession*)> done_;
  v1::SessionRequest request_;
  Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<v1::SessionResponse> out_ ABSL_GUARDED_BY(mutex_);
};

// Ends at once. Deletes itself, as reactors do.
class RefusedSession final
    : public grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse> {
 public:
  explicit RefusedSession(const grpc::Status& status) { Finish(status); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace

void AnswerAsUsual(const v1::SessionOperation& operation, v1::SessionResponse& response) {
  v1::SessionAnswer& answer = *response.add_answers();
  answer.set_id(operation.id());
  switch (operation.operation_case()) {
    case v1::SessionOperation::kReserve:
      return Fill(operation.reserve(), *answer.mutable_reserve());
    case v1::SessionOperation::kComplete:
      return Fill(operation.complete(), *answer.mutable_complete());
    case v1::SessionOperation::kRelease:
      return Fill(operation.release(), *answer.mutable_release());
    case v1::SessionOperation::kExtend:
      return Fill(operation.extend(), *answer.mutable_extend());
    case v1::SessionOperation::kGet:
      return Fill(operation.get(), *answer.mutable_get());
    default:
      answer.mutable_error()->set_code(grpc::StatusCode::INVALID_ARGUMENT);
  }
}

FakeService::FakeService() : state_(std::make_shared<State>()) { SetLimits(1024, 16 << 20); }
FakeService::~FakeService() = default;

void FakeService::FailWith(grpc::Status status) {
  MutexLock lock(state_->mutex);
  state_->failure = std::move(status);
}

void FakeService::KeepReserveUnanswered() {
  MutexLock lock(state_->mutex);
  state_->keep = true;
}

void FakeService::AnswerReserveAgain() {
  MutexLock lock(state_->mutex);
  state_->keep = false;
}

bool FakeService::WaitUntilHeld(std::size_t count) {
  State& state = *state_;
  MutexLock lock(state.mutex);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (state.held < count) {
    if (!state.changed.WaitUntil(lock, deadline)) return state.held >= count;
  }
  return true;
}

std::chrono::nanoseconds FakeService::TimeGiven() {
  MutexLock lock(state_->mutex);
  return state_->time_given;
}

void FakeService::HaveSessions(bool have) {
  MutexLock lock(state_->mutex);
  state_->have_sessions = have;
}

void FakeService::SetLimits(std::uint32_t max_in_flight, std::uint32_t max_frame_bytes) {
  v1::SessionResponse frame;
  frame.mutable_limits()->set_max_in_flight(max_in_flight);
  frame.mutable_limits()->set_max_frame_bytes(max_frame_bytes);
  SetFirstFrame(std::move(frame));
}

void FakeService::KeepFirstFrame() {
  MutexLock lock(state_->mutex);
  state_->first_frame.reset();
}

void FakeService::SetFirstFrame(v1::SessionResponse frame) {
  MutexLock lock(state_->mutex);
  state_->first_frame = std::move(frame);
}

void FakeService::RefuseSessions(grpc::Status status) {
  MutexLock lock(state_->mutex);
  state_->refusal = std::move(status);
}

void FakeService::SetScript(Script script) {
  MutexLock lock(state_->mutex);
  state_->script = std::move(script);
}

int FakeService::sessions_opened() {
  MutexLock lock(state_->mutex);
  return state_->opened;
}

int FakeService::unary_calls() {
  MutexLock lock(state_->mutex);
  return state_->unary_calls;
}

int FakeService::cancels() {
  MutexLock lock(state_->mutex);
  return state_->cancels;
}

std::vector<v1::SessionRequest> FakeService::frames() {
  MutexLock lock(state_->mutex);
  return state_->frames;
}

int FakeService::sessions_open() {
  MutexLock lock(state_->mutex);
  return static_cast<int>(state_->sessions.size());
}

bool FakeService::WaitUntil(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    MutexLock lock(state_->mutex);
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    state_->changed.WaitUntil(lock, now + std::chrono::milliseconds(20));
  }
  return true;
}

void FakeService::SendToAll(const v1::SessionResponse& frame) {
  MutexLock lock(state_->mutex);
  for (FakeSession* session : state_->sessions) session->Send(frame);
}

void FakeService::EndAll(const grpc::Status& status) {
  MutexLock lock(state_->mutex);
  for (FakeSession* session : state_->sessions) session->End(status);
}

grpc::ServerUnaryReactor* FakeService::Reserve(grpc::CallbackServerContext* context,
                                               const v1::ReserveRequest* request,
                                               v1::ReserveResponse* response) {
  {
    MutexLock lock(state_->mutex);
    state_->time_given = context->deadline() - std::chrono::system_clock::now();
    if (state_->keep) {
      ++state_->held;
      state_->changed.NotifyAll();
      return new PendingCall();
    }
  }
  Fill(*request, *response);
  return Answer(context);
}

grpc::ServerUnaryReactor* FakeService::Complete(grpc::CallbackServerContext* context,
                                                const v1::CompleteRequest* request,
                                                v1::CompleteResponse* response) {
  Fill(*request, *response);
  return Answer(context);
}

grpc::ServerUnaryReactor* FakeService::Release(grpc::CallbackServerContext* context,
                                               const v1::ReleaseRequest* request,
                                               v1::ReleaseResponse* response) {
  Fill(*request, *response);
  return Answer(context);
}

grpc::ServerUnaryReactor* FakeService::Extend(grpc::CallbackServerContext* context,
                                              const v1::ExtendRequest* request,
                                              v1::ExtendResponse* response) {
  Fill(*request, *response);
  return Answer(context);
}

grpc::ServerUnaryReactor* FakeService::Get(grpc::CallbackServerContext* context,
                                           const v1::GetRequest* request,
                                           v1::GetResponse* response) {
  Fill(*request, *response);
  return Answer(context);
}

grpc::ServerUnaryReactor* FakeService::Answer(grpc::CallbackServerContext* context) {
  MutexLock lock(state_->mutex);
  ++state_->unary_calls;
  auto* reactor = context->DefaultReactor();
  reactor->Finish(state_->failure);
  return reactor;
}

grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* FakeService::Session(
    grpc::CallbackServerContext*) {
  const std::shared_ptr<State> state = state_;
  MutexLock lock(state->mutex);
  ++state->opened;
  state->changed.NotifyAll();
  if (!state->have_sessions) {
    return new RefusedSession(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no such method"));
  }
  if (!state->refusal.ok()) return new RefusedSession(state->refusal);
  auto* session = new SessionReactor(
      state->first_frame,
      [state](FakeSession& of, const v1::SessionRequest& request, v1::SessionResponse& response) {
        {
          MutexLock frames_lock(state->mutex);
          state->frames.push_back(request);
        }
        for (const auto& operation : request.operations()) state->Handle(of, operation, response);
      },
      [state](FakeSession* ended) {
        MutexLock ended_lock(state->mutex);
        state->sessions.erase(ended);
        state->changed.NotifyAll();
      });
  state->sessions.insert(session);
  return session;
}

std::unique_ptr<grpc::Server> Serve(grpc::Service& service, const HeldPort& port) {
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(16 << 20);
  builder.AddListeningPort(port.address(), grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  return builder.BuildAndStart();
}

std::shared_ptr<grpc::Channel> Dial(int port) {
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                   grpc::InsecureChannelCredentials(),
                                   IdempotencydChannelArguments());
}

}  // namespace idempotency::internal::testing
