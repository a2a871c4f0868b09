#include "server/rpc/borrowed_queues.h"

#include <grpc/grpc.h>
#include <grpcpp/security/server_credentials.h>
#include <sys/epoll.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

#include "core/grpc_headers.h"
#include "server/files/file_descriptor.h"

namespace idempotency::internal {
namespace {

#if IDEMPOTENCY_GRPC_CREDENTIALS_GET_SERVER

// "Credentials" that open no port: with the server that they are passed, they register the queues.
class QueueRegistration final : public grpc::ServerCredentials {
 public:
  explicit QueueRegistration(BorrowedQueues::Queues queues) : queues_(std::move(queues)) {}

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& /*address*/, grpc_server* server) override {
    for (const std::shared_ptr<EventLoop>& queue : queues_) {
      grpc_server_register_completion_queue(server, queue->queue().cq(), nullptr);
    }
    // Not 0, which is a failure.
    return 1;
  }

  const BorrowedQueues::Queues queues_;
};

void Register(const BorrowedQueues::Queues& queues, grpc::ServerBuilder& builder) {
  builder.AddListeningPort("queues", std::make_shared<QueueRegistration>(queues));
}

#else

void Register(const BorrowedQueues::Queues& /*queues*/, grpc::ServerBuilder& /*builder*/) {}

#endif

// gRPC's other poller watches for each queue only the connections that were assigned to it, some of
// them to the idle queue.
bool PollsWithOneEpollSet() {
  const char* const strategy = std::getenv("GRPC_POLL_STRATEGY");
  if (strategy != nullptr && absl::string_view(strategy) != "epoll1") return false;
  return FileDescriptor(epoll_create1(EPOLL_CLOEXEC)).valid();
}

}  // namespace

bool BorrowedQueues::Possible() {
  return IDEMPOTENCY_GRPC_CREDENTIALS_GET_SERVER && PollsWithOneEpollSet();
}

BorrowedQueues::BorrowedQueues(grpc::ServerBuilder& builder, const Queues& queues)
    : idle_(builder.AddCompletionQueue()) {
  Register(queues, builder);
}

BorrowedQueues::~BorrowedQueues() {
  idle_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  // gRPC requires that a queue is found empty.
  while (idle_->Next(&tag, &ok)) {
  }
}

}  // namespace idempotency::internal
