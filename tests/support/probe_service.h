#ifndef IDEMPOTENCY_TESTS_SUPPORT_PROBE_SERVICE_H_
#define IDEMPOTENCY_TESTS_SUPPORT_PROBE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "tests/support/probe.h"

namespace idempotency::internal::testing {

// Which of gRPC's APIs a service is written in.
enum class Api { kSync, kCallback };

// What a handler does. May block. For the callback API it runs on a thread of
// its own, and the call finishes when it returns. It must not throw: a request
// for the account kThrowing throws in the method itself, in either API.
inline constexpr char kThrowing[] = "throwing";
using ProbeHandler = std::function<grpc::Status(grpc::ServerContextBase& context,
                                                const ActRequest& request, ActReply& reply)>;

// The Probe service, in the API of choice, around one handler (Act and Look
// alike; the streaming methods echo). Destroy it after its server.
class ProbeService {
 public:
  virtual ~ProbeService() = default;
  virtual grpc::Service* service() = 0;

  static std::unique_ptr<ProbeService> Make(Api api, ProbeHandler handler);
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_PROBE_SERVICE_H_
