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

// The gRPC API in which a service is written.
enum class Api { kSync, kCallback };

// The action of a handler. May block. In the callback API it runs on a thread of its own, and the
// call finishes when it returns. It must not throw: a request for the account kThrowing throws in
// the method itself, in either API.
inline constexpr char kThrowing[] = "throwing";
using ProbeHandler = std::function<grpc::Status(grpc::ServerContextBase& context,
                                                const ActRequest& request, ActReply& reply)>;

// The Probe service, in either API, around one handler (Act and Look alike; the streaming methods
// echo). Destroy it after its server.
class ProbeService {
 public:
  virtual ~ProbeService() = default;
  virtual grpc::Service* service() = 0;

  static std::unique_ptr<ProbeService> Make(Api api, ProbeHandler handler);
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_PROBE_SERVICE_H_
