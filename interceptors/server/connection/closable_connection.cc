#include "interceptors/server/connection/closable_connection.h"

#include <utility>
#include <variant>

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

ClosableConnection::ClosableConnection(std::unique_ptr<Connection> inner)
    : inner_(std::move(inner)) {}

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

void ClosableConnection::Send(AnyConnectionCall call, Deadline deadline) {
  if (!Enter()) {
    std::visit(
        [](auto& typed) {
          typed.done(MakeError(Reason::kStoreUnavailable, "the guard has been shut down"));
        },
        call);
    return;
  }
  inner_->Send(std::move(call), deadline);
  Leave();
}

void ClosableConnection::Close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
    while (inside_ > 0) left_.Wait(lock);
  }
  inner_.reset();
}

}  // namespace idempotency::internal
