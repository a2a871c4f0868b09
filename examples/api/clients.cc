// Clients: connection.h, connection_factory.h, key_store.h, retry_budget.h, retry_canceller.h,
// retry_rule.h.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"

#include "grpc_idempotency/client/call_with_retries.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/connection.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/client/key_store.h"
#include "grpc_idempotency/client/retry_budget.h"
#include "grpc_idempotency/client/retry_canceller.h"
#include "grpc_idempotency/client/retry_rule.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/uuid.h"

namespace examples {

// Reads a record, for a support tool. Blocks.
absl::StatusOr<idempotency::v1::GetResponse> ReadRecord(const idempotency::v1::GetRequest& get) {
  const auto connection = idempotency::MakeConnection(
      grpc::CreateCustomChannel("dns:///idempotencyd:7411", grpc::SslCredentials({}),
                                idempotency::IdempotencydChannelArguments()));
  std::promise<absl::StatusOr<idempotency::v1::GetResponse>> answer;
  connection->Get(get, idempotency::DeadlineIn(absl::Seconds(5)),
                  [&answer](absl::StatusOr<idempotency::v1::GetResponse> response) {
                    answer.set_value(std::move(response));
                  });
  return answer.get_future().get();
}

// Keys in the memory of the process: for tests of a client. Thread-safe.
class KeysInMemory final : public idempotency::KeyStore {
 public:
  absl::StatusOr<std::string> KeyFor(std::string_view work) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry& entry = entries_[std::string(work)];
    if (entry.key.empty()) {
      entry = {std::string(work), idempotency::Uuid::TimeOrdered(absl::Now()).ToString(),
               absl::Now()};
    }
    return entry.key;
  }
  absl::Status Forget(std::string_view work, std::string_view key) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(std::string(work));
    if (found != entries_.end() && found->second.key == key) entries_.erase(found);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<Entry>> Unfinished() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Entry> unfinished;
    for (const auto& [work, entry] : entries_) unfinished.push_back(entry);
    return unfinished;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

// Retries that end with the process, and that have a budget apart from other services.
idempotency::CallRetries RetriesOf(const char* service, idempotency::RetryCanceller& shutdown) {
  idempotency::CallRetries retries;
  retries.budget = &idempotency::RetryBudget::ForService(service);
  retries.canceller = &shutdown;
  return retries;
}

// Whether a person who sees this status should press the button again, with the same key.
bool MayHelpToTryAgain(const grpc::Status& status) { return idempotency::IsRetryable(status, {}); }

}  // namespace examples
