#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_RAW_CLIENT_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_RAW_CLIENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "grpc_idempotency/client/connection.h"
#include "grpc_idempotency/record_key.h"
#include "tests/chaos/workload/history_log.h"

namespace idempotency::internal::testing {

// A raw client's request to idempotencyd.
struct RawOperation {
  enum class Kind { kReserve, kComplete, kRelease, kExtend };
  Kind kind = Kind::kReserve;
  RecordKey key;
  // For a reservation.
  std::string request = "a";
  std::string request_token;
  bool recovery = false;
  bool recover = false;
  // The wait for a running attempt to end; otherwise the answer is in_flight.
  bool waits = false;
  // For the other operations.
  std::string token;
  std::string reply;
  bool outcome_unknown = false;
};

// Its answer.
struct RawAnswer {
  std::string event;
  std::string verdict;
  // Set by a grant.
  std::string token;
};

// Sends operations to idempotencyd and logs its requests and their answers. Thread-safe.
class RawClient {
 public:
  using Done = std::function<void(const RawAnswer&)>;

  RawClient(std::string name, std::unique_ptr<Connection> connection, HistoryLog& log);

  // Like Connection's methods; `done` must not block.
  void Send(const RawOperation& operation, Done done);
  // Waits for the answer.
  RawAnswer Call(const RawOperation& operation);
  // The record's state, or "" if it could not be read. Waits for it.
  std::string Look(const RecordKey& key);

  // The lease of every reservation and extension.
  static constexpr std::chrono::milliseconds kLease{2000};

 private:
  std::string LogInvoke(const RawOperation& operation);
  void SendReserve(const RawOperation& operation, const std::string& id, Done done);
  void LogReserved(const std::string& id, const v1::ReserveResponse& response, const Done& done);
  void LogSimple(const std::string& id, const absl::Status& status, const char* verdict,
                 const Done& done);
  void LogProbe(const RecordKey& key, std::int64_t from,
                const absl::StatusOr<v1::GetResponse>& response, std::string& state);

  const std::string name_;
  HistoryLog& log_;
  std::atomic<std::uint64_t> operations_{0};
  // Last: its destructor waits for callbacks, which use the above.
  const std::unique_ptr<Connection> connection_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_RAW_CLIENT_H_
