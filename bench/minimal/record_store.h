// The records in Postgres: the fewest statements and switches of threads for them.
//
// The thread that brings operations sends their statement if a connection is free; otherwise they
// gather for the next one. One thread waits for the results, calls the operations back, and sends
// what has gathered. Reservations and completions of a batch are one statement, so one commit.
#ifndef IDEMPOTENCY_BENCH_MINIMAL_RECORD_STORE_H_
#define IDEMPOTENCY_BENCH_MINIMAL_RECORD_STORE_H_

#include <libpq-fe.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/types/span.h"

#include "bench/minimal/operation.h"

namespace idempotency::internal::bench {

class RecordStore final : public Operations {
 public:
  // `after_batch` follows the Done() of a batch's operations, on the same thread.
  RecordStore(const std::string& location, int connections, std::function<void()> after_batch = {});
  // No operation may be under way.
  ~RecordStore() override;

  void Submit(absl::Span<Operation* const> operations) override;
  // Performs one on this thread, which waits. Its Done() is not called.
  void Perform(Operation& operation);

 private:
  class Connection;

  void WaitForResults();
  // Sends what has gathered on connections that are free.
  void SendGathered();
  void Deliver(absl::Span<Operation* const> operations);

  const std::function<void()> after_batch_;
  std::mutex mutex_;
  std::vector<Operation*> gathered_;
  std::vector<Connection*> free_;
  std::vector<std::unique_ptr<Connection>> connections_;
  // The connection of Perform().
  std::mutex own_mutex_;
  std::unique_ptr<Connection> own_;
  // Most reservations of late were of known keys.
  std::atomic<bool> read_first_ = false;
  std::atomic<bool> stopping_ = false;
  int wake_ = -1;
  std::thread waiter_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_MINIMAL_RECORD_STORE_H_
