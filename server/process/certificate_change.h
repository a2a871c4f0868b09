#ifndef IDEMPOTENCY_SERVER_PROCESS_CERTIFICATE_CHANGE_H_
#define IDEMPOTENCY_SERVER_PROCESS_CERTIFICATE_CHANGE_H_

#include <string>
#include <vector>

namespace idempotency::internal {

// The parts of a server's certificate whose change by mistake makes clients refuse it, although the
// certificate itself is valid. Printable.
struct CertificateChange {
  // Alternative names that the former certificate has and the new one has not: "DNS:idempotencyd".
  std::vector<std::string> names_lost;
  // Both empty if the issuer is the same.
  std::string former_issuer;
  std::string issuer;
};

// Of two texts in PEM form, the first certificate of each. No change if one has none.
CertificateChange ChangeOfCertificate(const std::string& former, const std::string& next);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_CERTIFICATE_CHANGE_H_
