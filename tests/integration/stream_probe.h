#ifndef IDEMPOTENCY_TESTS_INTEGRATION_STREAM_PROBE_H_
#define IDEMPOTENCY_TESTS_INTEGRATION_STREAM_PROBE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grpc_idempotency/errors.h"
#include "tests/support/probe_service.h"

namespace idempotency::internal::testing {

// The operations of a streaming handler. Write waits until the message was taken.
class ProbeStreamWriter {
 public:
  virtual ~ProbeStreamWriter() = default;
  virtual grpc::ServerContextBase& context() = 0;
  virtual void SendInitialMetadata() = 0;
  // The result that gRPC reports to the handler: false if the message could not be sent.
  virtual bool Write(const ActReply& reply, grpc::WriteOptions options) = 0;
  bool Write(const ActReply& reply) { return Write(reply, grpc::WriteOptions()); }
  // Together with the status that the handler then returns (WriteLast in the sync API,
  // StartWriteAndFinish in the callback API). `reply` stays valid.
  virtual void WriteAndFinish(const ActReply& reply) = 0;
};

// May block; in the callback API it runs on a thread of its own.
using StreamHandler =
    std::function<grpc::Status(const ActRequest& request, ProbeStreamWriter& writer)>;

// A Probe service with only Watch. Destroy it after its server.
class StreamProbe {
 public:
  virtual ~StreamProbe() = default;
  virtual grpc::Service* service() = 0;

  // A request for the account kThrowing throws in the method itself.
  static std::unique_ptr<StreamProbe> Make(Api api, StreamHandler handler);
};

// One call of Watch, with the bytes as they arrive.
class StreamCall {
 public:
  struct End {
    std::vector<std::string> messages;
    grpc::Status status;
    std::multimap<std::string, std::string> initial_metadata;
    std::multimap<std::string, std::string> trailing_metadata;

    std::string Trailer(const std::string& key) const;
    bool replayed() const { return Trailer("idempotency-replayed") == "true"; }
    std::optional<Reason> reason() const;
  };

  // Sends the request. An empty key is omitted.
  StreamCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& key,
             const ActRequest& request = {},
             std::chrono::milliseconds timeout = std::chrono::seconds(20));
  ~StreamCall();

  // nullopt when there are no more.
  std::optional<std::string> Read();
  // True if the next Read is over by then.
  bool ReadsBy(std::chrono::system_clock::time_point deadline);
  // Reads the rest, and all of it with what was read before.
  End Finish();
  void Cancel();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_INTEGRATION_STREAM_PROBE_H_
