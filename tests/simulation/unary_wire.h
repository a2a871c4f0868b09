#ifndef IDEMPOTENCY_TESTS_SIMULATION_UNARY_WIRE_H_
#define IDEMPOTENCY_TESTS_SIMULATION_UNARY_WIRE_H_

#include <memory>
#include <vector>

#include "client/connection/transport_error_reporter.h"
#include "grpc_idempotency/client/connection.h"
#include "tests/simulation/daemons.h"
#include "tests/simulation/network.h"

namespace idempotency::internal::simulation {

// A Connection of single calls over the simulated network, in place of MakeUnaryConnection()'s:
// requests and answers may be lost, late, doubled and overtaken; a deadline that passes cancels the
// call at both ends. A real transport, and so no fake of the kit.
class UnaryWire final : public Connection {
 public:
  // `client` is the process that calls.
  UnaryWire(Network& network, Daemons& daemons, Process& client)
      : network_(network), daemons_(daemons), client_(client) {}
  // Answers the outstanding calls, and returns when the last callback has run.
  ~UnaryWire() override;

  void Send(AnyConnectionCall call, Deadline deadline) override;

 private:
  // The caller's end of one call.
  class SentCall {
   public:
    virtual ~SentCall() = default;
    virtual void Close() = 0;
    // Its callback runs.
    virtual bool telling() const = 0;
  };
  template <typename Response>
  class TypedCall;

  template <typename Request, typename Response>
  using Method = void (Operations::*)(const Request&, PendingResponse<Response>&, Batcher::Group*);

  static Method<v1::ReserveRequest, v1::ReserveResponse> MethodFor(const v1::ReserveRequest&) {
    return &Operations::Reserve;
  }
  static Method<v1::CompleteRequest, v1::CompleteResponse> MethodFor(const v1::CompleteRequest&) {
    return &Operations::Complete;
  }
  static Method<v1::ReleaseRequest, v1::ReleaseResponse> MethodFor(const v1::ReleaseRequest&) {
    return &Operations::Release;
  }
  static Method<v1::ExtendRequest, v1::ExtendResponse> MethodFor(const v1::ExtendRequest&) {
    return &Operations::Extend;
  }
  static Method<v1::GetRequest, v1::GetResponse> MethodFor(const v1::GetRequest&) {
    return &Operations::Get;
  }

  template <typename Request, typename Response>
  void Call(OperationKind kind, Method<Request, Response> method, const Request& request,
            Deadline deadline, Callback<Response> done);

  Network& network_;
  Daemons& daemons_;
  Process& client_;
  // Also some that are answered.
  std::vector<std::weak_ptr<SentCall>> sent_;
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_UNARY_WIRE_H_
