#ifndef IDEMPOTENCY_CLIENT_TESTING_FAKE_SERVICE_H_
#define IDEMPOTENCY_CLIENT_TESTING_FAKE_SERVICE_H_

#include <grpcpp/channel.h>
#include <grpcpp/server.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "core/mutex.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/support/held_port.h"

namespace idempotency::internal::testing {

class FakeSession;

// Replaces idempotencyd in tests of connections: answers unary calls and sessions at once, as the
// test has set, or keeps reservations unanswered until they are cancelled. Thread-safe.
class FakeService final : public v1::IdempotencyService::CallbackService {
 public:
  // Called for each operation of a session. True: the script handled it, and the response that it
  // filled is sent with the rest of the frame.
  using Script =
      std::function<bool(FakeSession&, const v1::SessionOperation&, v1::SessionResponse&)>;

  FakeService();
  ~FakeService() override;

  void FailWith(grpc::Status status);
  void KeepReserveUnanswered();
  void AnswerReserveAgain();
  // False if fewer than `count` Reserve calls are held within 10 s.
  bool WaitUntilHeld(std::size_t count);
  // The time limit of the last Reserve call, as the server saw it.
  std::chrono::nanoseconds TimeGiven();

  // As a daemon from before SessionConnection, or a current one.
  void HaveSessions(bool have);
  void SetLimits(std::uint32_t max_in_flight, std::uint32_t max_frame_bytes);
  // Later sessions get no first frame, or this one instead of the right one.
  void KeepFirstFrame();
  void SetFirstFrame(v1::SessionResponse frame);
  // Later sessions end at once.
  void RefuseSessions(grpc::Status status);
  void SetScript(Script script);

  // The requests since the start.
  int sessions_opened();
  int unary_calls();
  int cancels();
  std::vector<v1::SessionRequest> frames();
  int sessions_open();
  // False if it is not so within 10 s.
  bool WaitUntil(const std::function<bool()>& condition);

  // Sent to every open session.
  void SendToAll(const v1::SessionResponse& frame);
  void EndAll(const grpc::Status& status);

  grpc::ServerUnaryReactor* Reserve(grpc::CallbackServerContext* context,
                                    const v1::ReserveRequest* request,
                                    v1::ReserveResponse* response) override;
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const v1::CompleteRequest* request,
                                     v1::CompleteResponse* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* response) override;
  grpc::ServerUnaryReactor* Extend(grpc::CallbackServerContext* context,
                                   const v1::ExtendRequest* request,
                                   v1::ExtendResponse* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const v1::GetRequest* request,
                                v1::GetResponse* response) override;
  grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  friend class FakeSession;
  class State;

  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context);

  const std::shared_ptr<State> state_;
};

// One session, for scripts.
class FakeSession {
 public:
  virtual ~FakeSession() = default;
  virtual void Send(v1::SessionResponse frame) = 0;
  virtual void End(const grpc::Status& status) = 0;
};

// The service's answer to `operation` unless a script sets another.
void AnswerAsUsual(const v1::SessionOperation& operation, v1::SessionResponse& response);

// A server on a reserved port, so that another server can follow on it.
std::unique_ptr<grpc::Server> Serve(grpc::Service& service, const HeldPort& port);
std::shared_ptr<grpc::Channel> Dial(int port);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_CLIENT_TESTING_FAKE_SERVICE_H_
