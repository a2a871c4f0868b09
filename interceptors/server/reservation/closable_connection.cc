#include "interceptors/server/reservation/closable_connection.h"

#include <utility>

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

ClosableConnection::ClosableConnection(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}

ClosableConnection::~ClosableConnection() { Close(); }

bool ClosableConnection::Enter() {
  MutexLock lock(mutex_);
  if (closed_) return false;
  ++inside_;
  return true;
}

void ClosableConnection::Leave() {
  MutexLock lock(mutex_);
  if (--inside_ == 0 && closed_) left_.NotifyAll();
}

template <typename Request, typename Response>
void ClosableConnection::Call(void (Connection::*method)(const Request&, Deadline,
                                                         Callback<Response>),
                              const Request& request, Deadline deadline, Callback<Response> done) {
  if (!Enter()) {
    done(MakeError(Reason::kStoreUnavailable, "the guard has been shut down"));
    return;
  }
  (connection_.get()->*method)(request, deadline, std::move(done));
  Leave();
}

void ClosableConnection::Reserve(const v1::ReserveRequest& request, Deadline deadline,
                                 Callback<v1::ReserveResponse> done) {
  Call(&Connection::Reserve, request, deadline, std::move(done));
}

void ClosableConnection::Complete(const v1::CompleteRequest& request, Deadline deadline,
                                  Callback<v1::CompleteResponse> done) {
  Call(&Connection::Complete, request, deadline, std::move(done));
}

void ClosableConnection::Release(const v1::ReleaseRequest& request, Deadline deadline,
                                 Callback<v1::ReleaseResponse> done) {
  Call(&Connection::Release, request, deadline, std::move(done));
}

void ClosableConnection::Extend(const v1::ExtendRequest& request, Deadline deadline,
                                Callback<v1::ExtendResponse> done) {
  Call(&Connection::Extend, request, deadline, std::move(done));
}

void ClosableConnection::Get(const v1::GetRequest& request, Deadline deadline,
                             Callback<v1::GetResponse> done) {
  Call(&Connection::Get, request, deadline, std::move(done));
}

void ClosableConnection::Close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
    while (inside_ > 0) left_.Wait(lock);
  }
  connection_.reset();
}

}  // namespace idempotency::internal
