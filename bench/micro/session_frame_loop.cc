#include "bench/micro/session_frame_loop.h"

#include <string>

#include "bench/record_requests.h"

namespace idempotency::bench {
namespace {

constexpr std::uint64_t kOperations = 64;

template <typename Frame>
void SendAndReceive(const Frame& frame) {
  const std::string bytes = frame.SerializeAsString();
  Frame received;
  Use(received.ParseFromString(bytes));
  Use(received);
}

}  // namespace

SessionFrameLoop::SessionFrameLoop() {
  RecordRequests::Options options;
  options.keys = {/*seed=*/1, absl::FromUnixSeconds(1700000000), /*hashed_share=*/0};
  const RecordRequests requests(options);
  for (std::uint64_t id = 0; id < kOperations; ++id) {
    v1::SessionOperation& operation = *request_.add_operations();
    operation.set_id(id);
    operation.mutable_timeout()->set_seconds(2);
    *operation.mutable_reserve() = requests.Reserve(id);
    v1::SessionAnswer& answer = *response_.add_answers();
    answer.set_id(id);
    v1::Reserved& reserved = *answer.mutable_reserve()->mutable_reserved();
    reserved.set_reservation_token(operation.reserve().request_token());
    reserved.set_attempt(1);
    reserved.mutable_lease_remaining()->set_seconds(30);
    reserved.mutable_created_at()->set_seconds(1700000000);
    reserved.mutable_expires_at()->set_seconds(1700086400);
  }
}

void SessionFrameLoop::Iterate() {
  SendAndReceive(request_);
  SendAndReceive(response_);
}

}  // namespace idempotency::bench
