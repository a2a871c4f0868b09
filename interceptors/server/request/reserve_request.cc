#include "interceptors/server/request/reserve_request.h"

#include <utility>

#include "core/absl_view.h"
#include "core/arena_message.h"
#include "interceptors/server/request/application_call.h"

namespace idempotency::internal {
namespace {

// As ToProto(), but in place: messages of their own would be copied into the arena.
void Move(RecordKey key, v1::RecordKey& proto) {
  proto.set_namespace_(std::move(key.name_space));
  proto.set_scope(std::move(key.scope));
  proto.set_operation(std::move(key.operation));
  proto.set_key(std::move(key.key));
}

void Move(Fingerprint fingerprint, v1::Fingerprint& proto) {
  if (fingerprint.key_id != 0) {
    proto = ToProto(fingerprint);
    return;
  }
  proto.set_version(fingerprint.version);
  proto.set_digest(std::move(fingerprint.digest));
}

}  // namespace

absl::StatusOr<std::vector<Fingerprint>> RequestFingerprints(
    GuardLog& log, absl::Span<const FingerprintAlgorithm> algorithms,
    const FingerprintInput& input) {
  return CallApplication(
      log, input.method, "the fingerprint's computation",
      [&]() -> absl::StatusOr<std::vector<Fingerprint>> {
        std::vector<Fingerprint> fingerprints = ComputeFingerprints(algorithms, input);
        const absl::Status valid = ValidateFingerprints(fingerprints);
        if (valid.ok()) return fingerprints;
        log.Error(LogEvent::kInvalidFingerprint, AbslView(input.method),
                  ": a fingerprint cannot be used: ", valid.message());
        return absl::InternalError("the fingerprint's computation failed; nothing was run");
      });
}

std::shared_ptr<v1::ReserveRequest> MakeReserveRequest(RecordKey record_key,
                                                       std::vector<Fingerprint> fingerprints) {
  auto request = MakeArenaMessage<v1::ReserveRequest>();
  Move(std::move(record_key), *request->mutable_record_key());
  for (Fingerprint& fingerprint : fingerprints) {
    Move(std::move(fingerprint), *request->add_fingerprints());
  }
  return request;
}

}  // namespace idempotency::internal
