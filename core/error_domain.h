#ifndef IDEMPOTENCY_CORE_ERROR_DOMAIN_H_
#define IDEMPOTENCY_CORE_ERROR_DOMAIN_H_

#include <string>

namespace idempotency::internal {

// True for a grpc-status-details-bin of the catalogue's domain, also with a reason that only a
// newer version has.
bool HasErrorDomain(const std::string& details);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_ERROR_DOMAIN_H_
