#include "tests/simulation/unary_wire.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "grpc_idempotency/grpc_status.h"
#include "server/operation/pending_operation.h"

namespace idempotency::internal::simulation {
namespace {

// The interval in which a connection that ends checks whether a callback has returned.
constexpr Nanos kLookAgain = 10 * kMicrosecond;
// The time that a store call that was begun before the deadline may take beyond it.
constexpr Nanos kDaemonSlack = 10 * kSecond;

// The daemon's end of one arrival of a call.
template <typename Response>
class Arrival final : public PendingResponse<Response> {
 public:
  using Done = std::function<void(const grpc::Status&, const Response&)>;

  Arrival(OperationKind kind, Batcher::Deadline arrived, Batcher::Deadline deadline, Done done)
      : PendingResponse<Response>(kind, arrived, deadline), done_(std::move(done)) {}

  // From the moment at which Operations has it until it is finished. Shared with the code that may
  // cancel it.
  std::shared_ptr<Arrival> self;

 private:
  Response& response() override { return response_; }
  void Finish(const absl::Status& status) override {
    const std::shared_ptr<Arrival> last = std::move(self);
    done_(ToGrpcStatus(status), response_);
  }

  const Done done_;
  Response response_;
};

const grpc::Status& Refused() {
  static const auto& status =
      *new grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection refused");
  return status;
}

const grpc::Status& Passed() {
  static const auto& status =
      *new grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "deadline exceeded");
  return status;
}

const grpc::Status& Closing() {
  static const auto& status = *new grpc::Status(grpc::StatusCode::CANCELLED, "closing");
  return status;
}

// A call that arrives at a daemon must be answered there, whether or not its caller still waits.
template <typename Response>
void Expect(Network& network, std::shared_ptr<Arrival<Response>> arrival, Daemon& daemon,
            Nanos within) {
  network.scheduler().After(
      within, &daemon.process(), [&network, arrival = std::move(arrival), &daemon] {
        if (arrival->self == nullptr) return;
        // One that has just continued after a pause has much to do.
        if (network.scheduler().now() - daemon.process().paused_until() < kDaemonSlack) {
          return Expect(network, arrival, daemon, kDaemonSlack);
        }
        network.journal().Broken("a daemon does not answer by the deadline");
      });
}

}  // namespace

// Answered once, by the first answer. Outlives the connection.
template <typename Response>
class UnaryWire::TypedCall final : public SentCall {
 public:
  explicit TypedCall(Connection::Callback<Response> done) : done_(std::move(done)) {}

  bool answered() const { return !done_; }
  void Answer(const grpc::Status& status, const Response& response) {
    if (answered()) return;
    const auto done = std::exchange(done_, nullptr);
    telling_ = true;
    if (status.ok()) {
      done(response);
    } else {
      done(transport_errors_.Failed(status));
    }
    telling_ = false;
  }
  void Close() override { Answer(Closing(), Response()); }
  bool telling() const override { return telling_; }

 private:
  Connection::Callback<Response> done_;
  TransportErrorReporter transport_errors_;
  bool telling_ = false;
};

UnaryWire::~UnaryWire() {
  for (const std::weak_ptr<SentCall>& sent : sent_) {
    const auto call = sent.lock();
    if (call == nullptr) continue;
    call->Close();
    while (call->telling()) network_.scheduler().Sleep(kLookAgain);
  }
}

template <typename Request, typename Response>
void UnaryWire::Call(OperationKind kind, Method<Request, Response> method, const Request& request,
                     Deadline deadline, Callback<Response> done) {
  Scheduler& scheduler = network_.scheduler();
  const auto sent = std::make_shared<TypedCall<Response>>(std::move(done));
  sent_.push_back(sent);
  Daemon* const daemon = daemons_.Pick(scheduler.random());
  if (!Daemons::IsUp(daemon)) {
    scheduler.After(network_.Latency(), &client_, [sent] { sent->Answer(Refused(), Response()); });
    return;
  }
  const auto left = deadline - std::chrono::steady_clock::now();
  // These outlive the connection, as calls under way may.
  Network* const network = &network_;
  Process* const client = &client_;
  const std::string host = client_.name();
  const auto cancelled = std::make_shared<std::vector<std::function<void()>>>();
  network_.Send(host, &daemon->process(), daemon->name(),
                [network, client, kind, method, request, left, sent, daemon, host, cancelled] {
                  const auto now = std::chrono::steady_clock::now();
                  const auto arrival = std::make_shared<Arrival<Response>>(
                      kind, now, now + left,
                      [network, client, sent, daemon, host](const grpc::Status& status,
                                                            const Response& response) {
                        network->Send(daemon->name(), client, host,
                                      [sent, status, response] { sent->Answer(status, response); });
                      });
                  arrival->self = arrival;
                  (daemon->operations().*method)(request, *arrival, nullptr);
                  Expect(*network, arrival, *daemon,
                         kDaemonSlack + std::max<Nanos>(left.count(), 0));
                  cancelled->push_back([arrival, daemon] {
                    if (arrival->self == nullptr) return;
                    daemon->operations().Cancel(arrival->waiting());
                  });
                });
  // By the caller's clock.
  scheduler.At(client_.WhenMonotonic(deadline.time_since_epoch().count()), &client_,
               [network, sent, daemon, host, cancelled] {
                 if (sent->answered()) return;
                 network->Send(host, &daemon->process(), daemon->name(), [cancelled] {
                   for (const auto& cancel : *cancelled) cancel();
                 });
                 sent->Answer(Passed(), Response());
               });
}

void UnaryWire::Send(AnyConnectionCall call, Deadline deadline) {
  static constexpr std::array kKinds = {OperationKind::kReserve, OperationKind::kComplete,
                                        OperationKind::kRelease, OperationKind::kExtend,
                                        OperationKind::kGet};
  const OperationKind kind = kKinds.at(call.index());
  std::visit(
      [&](auto& typed) {
        Call(kind, MethodFor(typed.request), typed.request, deadline, std::move(typed.done));
      },
      call);
}

}  // namespace idempotency::internal::simulation
