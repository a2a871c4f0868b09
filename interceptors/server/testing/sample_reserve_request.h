#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_SAMPLE_RESERVE_REQUEST_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_SAMPLE_RESERVE_REQUEST_H_

#include <string>

#include "core/sha256.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// A request for a reservation of `key` that the service accepts, with the fingerprint of
// `content`; without a request token and with default terms.
inline v1::ReserveRequest SampleReserveRequest(const std::string& key = "order-1",
                                               const std::string& content = "content") {
  v1::ReserveRequest reserve_request;
  v1::RecordKey& record_key = *reserve_request.mutable_record_key();
  record_key.set_namespace_("tills");
  record_key.set_scope("alice");
  record_key.set_operation("/tills.v1.Till/Charge");
  record_key.set_key(key);
  v1::Fingerprint& fingerprint = *reserve_request.add_fingerprints();
  fingerprint.set_version(1);
  const Sha256Digest digest = Sha256(content);
  fingerprint.set_digest(std::string(digest.begin(), digest.end()));
  return reserve_request;
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_SAMPLE_RESERVE_REQUEST_H_
