#ifndef IDEMPOTENCY_TESTS_SUPPORT_CERTIFICATE_AUTHORITY_H_
#define IDEMPOTENCY_TESTS_SUPPORT_CERTIFICATE_AUTHORITY_H_

#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {

// Makes certificates for tests with the openssl program, in a folder of its
// own. Aborts the test process if that fails. Thread-compatible.
class CertificateAuthority {
 public:
  // Both in PEM.
  struct Identity {
    std::string key;
    std::string certificate;
  };

  CertificateAuthority();

  // The authority's own certificate, in PEM.
  const std::string& root() const { return root_.certificate; }
  // A certificate for a common name and, unless empty, alternative names as in
  // openssl's configuration ("DNS:alice.example,IP:127.0.0.1"), and an extended
  // key usage ("serverAuth"). Each call makes a new key.
  Identity Issue(const std::string& common_name, const std::string& alternative_names = "",
                 const std::string& key_usage = "");

 private:
  Identity Make(const std::string& common_name, const std::vector<std::string>& arguments);

  TempFolder folder_;
  int made_ = 0;
  Identity root_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_CERTIFICATE_AUTHORITY_H_
