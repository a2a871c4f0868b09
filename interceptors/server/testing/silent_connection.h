#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_SILENT_CONNECTION_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_SILENT_CONNECTION_H_

#include <utility>

#include "client/connection.h"
#include "core/errors.h"
#include "interceptors/server/threads/scheduler.h"

namespace idempotency {

// A Connection in front of another one, which can fall silent, as a network does that
// drops every packet: a call that is made meanwhile never arrives, and is answered at its
// own deadline, by the scheduler's time. Without a deadline it is never answered. For one
// thread.
class SilentConnection final : public Connection {
 public:
  // Both must outlive it.
  SilentConnection(Connection& behind, Scheduler& scheduler)
      : behind_(behind), scheduler_(scheduler) {}

  void SetSilent(bool silent) { silent_ = silent; }
  // Calls that never arrived.
  int lost() const { return lost_; }

  void Reserve(const v1::ReserveRequest& request, Deadline deadline,
               Callback<v1::ReserveResponse> done) override {
    Pass(&Connection::Reserve, request, deadline, std::move(done));
  }
  void Complete(const v1::CompleteRequest& request, Deadline deadline,
                Callback<v1::CompleteResponse> done) override {
    Pass(&Connection::Complete, request, deadline, std::move(done));
  }
  void Release(const v1::ReleaseRequest& request, Deadline deadline,
               Callback<v1::ReleaseResponse> done) override {
    Pass(&Connection::Release, request, deadline, std::move(done));
  }
  void Extend(const v1::ExtendRequest& request, Deadline deadline,
              Callback<v1::ExtendResponse> done) override {
    Pass(&Connection::Extend, request, deadline, std::move(done));
  }
  void Get(const v1::GetRequest& request, Deadline deadline,
           Callback<v1::GetResponse> done) override {
    Pass(&Connection::Get, request, deadline, std::move(done));
  }

 private:
  template <typename Request, typename Response>
  void Pass(void (Connection::*method)(const Request&, Deadline, Callback<Response>),
            const Request& request, Deadline deadline, Callback<Response> done) {
    if (!silent_) {
      (behind_.*method)(request, deadline, std::move(done));
      return;
    }
    ++lost_;
    if (deadline == Deadline::max()) return;
    scheduler_.RunAt(deadline, [done = std::move(done)] {
      done(MakeError(Reason::kStoreUnavailable, "no answer by the deadline"));
    });
  }

  Connection& behind_;
  Scheduler& scheduler_;
  bool silent_ = false;
  int lost_ = 0;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_SILENT_CONNECTION_H_
