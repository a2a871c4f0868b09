#include "bench/micro/session_frame_loop.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "bench/record_requests.h"
#include "client/connection/outstanding_operation.h"
#include "client/connection/session_frame.h"
#include "core/application_log.h"

namespace idempotency::internal::bench {
namespace {

constexpr std::uint64_t kOperations = 64;

}  // namespace

SessionFrameLoop::SessionFrameLoop() {
  RecordRequests::Options options;
  options.keys = {/*seed=*/1, absl::FromUnixSeconds(1700000000), /*hashed_share=*/0};
  const RecordRequests requests(options);
  for (std::uint64_t id = 0; id < kOperations; ++id) {
    requests_.push_back(requests.Reserve(id));
    v1::SessionAnswer& answer = *response_.add_answers();
    answer.set_id(id);
    v1::Reserved& reserved = *answer.mutable_reserve()->mutable_reserved();
    reserved.set_reservation_token(requests_.back().request_token());
    reserved.set_attempt(1);
    reserved.mutable_lease_remaining()->set_seconds(30);
    reserved.mutable_created_at()->set_seconds(1700000000);
    reserved.mutable_expires_at()->set_seconds(1700086400);
  }
}

void SessionFrameLoop::Iterate() {
  static const auto& log = *new ApplicationLog;
  std::vector<std::unique_ptr<OutstandingOperation>> operations;
  SessionFrame frame;
  for (const v1::ReserveRequest& request : requests_) {
    operations.push_back(OutstandingOperation::Make<v1::ReserveRequest, v1::ReserveResponse>(
        request, Connection::Deadline::max(), [](const auto& answer) { Use(answer); }, log));
    frame.Add(operations.size(), std::chrono::seconds(2), operations.back()->body);
  }
  const std::string sent = std::move(frame).Take();
  v1::SessionRequest received;
  Use(received.ParseFromString(sent));

  const std::string answered = response_.SerializeAsString();
  v1::SessionResponse answers;
  Use(answers.ParseFromString(answered));
  for (v1::SessionAnswer& answer : *answers.mutable_answers()) {
    operations[answer.id()]->Answer(answer);
  }
}

}  // namespace idempotency::internal::bench
