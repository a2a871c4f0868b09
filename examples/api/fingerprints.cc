// Record ids, fingerprints and stored replies, as a tool computes them: record_key.h,
// fingerprint.h, fingerprint_algorithm.h, fingerprint_input.h, reply.h.
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "examples/payments/payments.pb.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "grpc_idempotency/fingerprint_input.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"

namespace examples {

// The id under which `Get` finds the record of a charge.
std::string RecordIdOf(const std::string& tenant, const std::string& key) {
  const idempotency::RecordKey record_key{"payments", tenant, "/payments.v1.Payments/Charge",
                                          idempotency::NormaliseKey(key)};
  return idempotency::RecordIdFor(record_key).ToString();
}

// Whether the service would treat the second request as a repeat of the first.
bool AreTheSame(const payments::v1::ChargeRequest& first,
                const payments::v1::ChargeRequest& second) {
  const std::vector<idempotency::FingerprintAlgorithm> algorithms = {
      idempotency::FingerprintAlgorithm::V1()};
  const std::string method = "/payments.v1.Payments/Charge";
  const auto stored =
      idempotency::ComputeFingerprints(algorithms, idempotency::FingerprintInput{method, first});
  const auto sent =
      idempotency::ComputeFingerprints(algorithms, idempotency::FingerprintInput{method, second});
  return idempotency::CompareFingerprints(stored, sent) == idempotency::FingerprintMatch::kSame;
}

// The reply of a charge, from the two columns of a store's row.
absl::StatusOr<payments::v1::ChargeReply> ReplyOf(const idempotency::EncodedReply& columns) {
  const auto reply = idempotency::DecodeReply(columns);
  if (!reply.ok()) return reply.status();
  payments::v1::ChargeReply charge;
  charge.ParseFromString(reply->body());
  return charge;
}

}  // namespace examples
