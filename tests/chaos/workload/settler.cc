#include "tests/chaos/workload/settler.h"

#include <cstdint>
#include <thread>

#include "grpc_idempotency/uuid.h"

namespace idempotency::internal::testing {
namespace {

constexpr std::chrono::milliseconds kPause(100);

bool Before(std::chrono::steady_clock::time_point deadline) {
  return std::chrono::steady_clock::now() < deadline;
}

}  // namespace

bool Settler::Settle(KnownRecords::Record record, Deadline deadline) {
  if (!(record.raw ? SettleRaw(record, deadline) : SettleGuarded(record, deadline))) return false;
  record.settled = true;
  known_.Touch(record);
  return true;
}

bool Settler::SettleGuarded(const KnownRecords::Record& record, Deadline deadline) {
  DrawnCall call{record.key, record.key.key, "a"};
  for (std::uint64_t server = 0; Before(deadline); ++server) {
    const GuardedClient::Answer answer = guarded_.Call(call, server);
    if (answer == GuardedClient::Answer::kSettled) return true;
    if (answer == GuardedClient::Answer::kMismatch) {
      call.request = call.request == "a" ? "b" : "a";
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
  return false;
}

bool Settler::SettleRaw(const KnownRecords::Record& record, Deadline deadline) {
  RawOperation reserve;
  reserve.key = record.key;
  reserve.recovery = record.recovery;
  reserve.recover = true;
  while (Before(deadline)) {
    reserve.request_token = Uuid::Random().ToString();
    const RawAnswer granted = raw_.Call(reserve);
    if (granted.verdict == "replay") return true;
    if (granted.verdict == "reserved") {
      RawOperation complete;
      complete.kind = RawOperation::Kind::kComplete;
      complete.key = record.key;
      complete.token = granted.token;
      complete.reply = "settled";
      if (raw_.Call(complete).verdict == "completed") return true;
    }
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

}  // namespace idempotency::internal::testing
