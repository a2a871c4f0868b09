// Callers that do not read their answers fill only a fixed part of the daemon's memory.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "tests/support/daemon_process.h"
#include "tests/support/metrics_page.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

constexpr std::size_t kReplyBytes = 7 * 1024 * 1024 + 512 * 1024;
constexpr int kCallers = 100;
constexpr auto kLimit = std::chrono::seconds(30);

// The resident memory of the process.
std::size_t ResidentMib(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string word; status >> word;) {
    std::size_t kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib / 1024;
  }
  ADD_FAILURE() << "no VmRSS";
  return 0;
}

// Calls of Reserve whose answers are never read. Cancelled at the end.
class UnreadCalls {
 public:
  UnreadCalls(const std::string& address, const v1::ReserveRequest& request, int count)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())), calls_(count) {
    const std::string bytes = request.SerializeAsString();
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer buffer(&slice, 1);
    for (Call& call : calls_) {
      call.stream =
          stub_.PrepareCall(&call.context, "/idempotency.v1.IdempotencyService/Reserve", &queue_);
      call.stream->StartCall(&call);
      Await();
      call.stream->WriteLast(buffer, grpc::WriteOptions(), &call);
      Await();
    }
  }
  ~UnreadCalls() {
    for (Call& call : calls_) {
      call.context.TryCancel();
      call.stream->Finish(&call.status, &call);
      Await();
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

 private:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
    grpc::Status status;
  };

  void Await() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
  }

  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::vector<Call> calls_;
};

class UnreadReplies : public ::testing::Test {
 protected:
  void SetUp() override {
    // A sanitizer keeps freed memory; this test measures memory that is in use.
    const char* const options = std::getenv("ASAN_OPTIONS");
    setenv("ASAN_OPTIONS",
           absl::StrCat(options == nullptr ? "" : options, ":quarantine_size_mb=8").c_str(), 1);
    daemon_ = std::make_unique<DaemonProcess>(absl::StrCat("sqlite:", folder_.File("store.db")),
                                              std::vector<std::string>{"--queue_mib=32"});
    client_ = std::make_unique<ServiceClient>(daemon_->address());
  }

  absl::Status CompleteLarge(const std::string& key) {
    const auto reserved = client_->Call(SomeReserve(key));
    if (!reserved.ok()) return reserved.status();
    return client_
        ->Call(SomeComplete(key, reserved->reserved().reservation_token(),
                            std::string(kReplyBytes, 'r')))
        .status();
  }
  bool AwaitReserves(int count) {
    const auto deadline = std::chrono::steady_clock::now() + kLimit;
    while (std::chrono::steady_clock::now() < deadline) {
      double answered = 0;
      const auto page = MetricsPage::Fetch(daemon_->metrics_address());
      for (const auto& [series, value] : page.samples()) {
        const bool counts = absl::StartsWith(series, "idempotency_rpc_duration_seconds_count{") &&
                            absl::StrContains(series, "method=\"Reserve\"");
        if (counts) answered += value;
      }
      if (answered >= count) return true;
    }
    return false;
  }

  TempFolder folder_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::unique_ptr<ServiceClient> client_;
};

TEST_F(UnreadReplies, AreBoundedAndLeaveCompletionsTheirPart) {
  ASSERT_TRUE(CompleteLarge("large").ok());
  const std::size_t before = ResidentMib(daemon_->process().pid());
  {
    const UnreadCalls unread(daemon_->address(), SomeReserve("large"), kCallers);
    ASSERT_TRUE(AwaitReserves(1 + kCallers));
    // All of them together would be 1.5 GiB.
    EXPECT_LT(ResidentMib(daemon_->process().pid()), before + 256);

    const auto refused = client_->Call(SomeReserve("large"));
    EXPECT_EQ(ReasonOf(refused.status()), Reason::kOverloaded) << refused.status();
    EXPECT_TRUE(DetailsOf(refused.status()).retry_delay.has_value());
    const absl::Status completed = CompleteLarge("another");
    EXPECT_TRUE(completed.ok()) << completed;
  }
  // They have disconnected.
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  auto replayed = client_->Call(SomeReserve("large"));
  while (!replayed.ok() && std::chrono::steady_clock::now() < deadline) {
    EXPECT_EQ(ReasonOf(replayed.status()), Reason::kOverloaded);
    replayed = client_->Call(SomeReserve("large"));
  }
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ(replayed->replay().reply().body().size(), kReplyBytes);
}

}  // namespace
}  // namespace idempotency::internal::testing
