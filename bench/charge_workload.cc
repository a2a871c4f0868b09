#include "bench/charge_workload.h"

#include <grpcpp/client_context.h>

#include <chrono>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "grpc_idempotency/idempotency_key.h"

namespace idempotency::internal::bench {
namespace {

// A prime, as in ReplayWorkload.
constexpr std::uint64_t kStride = 2654435761;

}  // namespace

// The objects that gRPC needs until the call has ended.
struct ChargeWorkload::Call {
  grpc::ClientContext context;
  charges::v1::ChargeReply reply;
  Done done;
};

ChargeWorkload::ChargeWorkload(const std::shared_ptr<grpc::Channel>& channel,
                               const Options& options)
    : stub_(charges::v1::Charges::NewStub(channel)), options_(options) {
  if (options.keys.has_value()) keys_.emplace(*options.keys);
  request_.set_account("alice");
  request_.set_amount_cents(4200);
  request_.set_note(std::string(options.request_bytes, 'n'));
}

void ChargeWorkload::Start(std::uint64_t number, Done done) {
  auto call = std::make_shared<Call>();
  call->done = std::move(done);
  call->context.set_deadline(std::chrono::system_clock::now() +
                             absl::ToChronoMilliseconds(options_.timeout));
  if (keys_.has_value()) {
    const std::uint64_t wanted =
        options_.replayed_keys.has_value()
            ? number % *options_.replayed_keys * kStride % *options_.replayed_keys
            : number;
    call->context.AddMetadata(std::string(kKeyMetadata), keys_->At(wanted));
  }
  Call* const sent = call.get();
  stub_->async()->Charge(
      &sent->context, &request_, &sent->reply,
      [this, number, call = std::move(call)](const grpc::Status& status) {
        if (!status.ok()) {
          // The codes are the same numbers.
          return call->done(absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                                         status.error_message()));
        }
        call->done(CheckAnswer(number, *call));
      });
}

absl::Status ChargeWorkload::CheckAnswer(std::uint64_t number, const Call& call) const {
  if (call.reply.receipt().empty()) return absl::DataLossError("a reply without its receipt");
  if (!keys_.has_value() || number % kLookedAt != 0) return absl::OkStatus();
  const auto& trailers = call.context.GetServerTrailingMetadata();
  const bool replayed = trailers.find(std::string(kReplayedMetadata)) != trailers.end();
  if (replayed == options_.replayed_keys.has_value()) return absl::OkStatus();
  return absl::InternalError(replayed ? "a replay of a key that is new"
                                      : "not a replay of a key that was used before");
}

}  // namespace idempotency::internal::bench
