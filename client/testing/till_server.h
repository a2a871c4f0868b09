#ifndef IDEMPOTENCY_CLIENT_TESTING_TILL_SERVER_H_
#define IDEMPOTENCY_CLIENT_TESTING_TILL_SERVER_H_

#include <grpcpp/channel.h>
#include <grpcpp/server.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "till.grpc.pb.h"

namespace idempotency::testdata {

// A Till on loopback that answers by script and records the calls that arrived. Thread-safe.
class TillServer final : public Till::Service {
 public:
  struct Answer {
    grpc::Status status;
    // The trailer grpc-retry-pushback-ms.
    std::optional<std::string> pushback_ms;
    // Sends initial metadata before the status.
    bool initial_metadata = false;
    // Answers only when the caller's deadline has passed, or the server ends.
    bool too_late = false;
    std::map<std::string, std::string> trailers = {};
  };
  // One arrival of a call: gRPC's retries are several arrivals.
  struct Arrival {
    std::string method;
    // Every value of `idempotency-key`.
    std::vector<std::string> keys;
    std::chrono::steady_clock::time_point at;
  };

  TillServer();
  ~TillServer() override;

  // The next answers, in order; afterwards every call is answered OK.
  void Script(std::vector<Answer> answers);
  std::vector<Arrival> arrivals() const;
  std::string address() const;
  // A channel with the client interceptor.
  std::shared_ptr<grpc::Channel> Dial(const grpc::ChannelArguments& arguments = {}) const;

  grpc::Status Charge(grpc::ServerContext*, const ChargeRequest*, ChargeReply*) override;
  grpc::Status Balance(grpc::ServerContext*, const ChargeRequest*, ChargeReply*) override;
  grpc::Status SetLimit(grpc::ServerContext*, const ChargeRequest*, ChargeReply*) override;
  grpc::Status Tip(grpc::ServerContext*, const ChargeRequest*, ChargeReply*) override;
  grpc::Status Log(grpc::ServerContext*, const ChargeRequest*, ChargeReply*) override;
  grpc::Status Order(grpc::ServerContext*, const ChargeRequest*, ChargeReply*) override;
  grpc::Status ChargeMany(grpc::ServerContext*, grpc::ServerReader<ChargeRequest>*,
                          ChargeReply*) override;
  grpc::Status Watch(grpc::ServerContext*, const ChargeRequest*,
                     grpc::ServerWriter<ChargeReply>*) override;

 private:
  // Records the arrival and answers by the script.
  grpc::Status Answered(grpc::ServerContext& context, const std::string& method);
  void AwaitDeadline(const grpc::ServerContext& context);

  mutable internal::Mutex mutex_;
  std::deque<Answer> script_ ABSL_GUARDED_BY(mutex_);
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
  internal::CondVar ends_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace idempotency::testdata

#endif  // IDEMPOTENCY_CLIENT_TESTING_TILL_SERVER_H_
