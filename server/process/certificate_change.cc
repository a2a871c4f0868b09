#include "server/process/certificate_change.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <set>

namespace idempotency::internal {
namespace {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using MemoryBio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using AlternativeNames = std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)>;

// A key before it is left out.
Certificate FirstOf(const std::string& pem) {
  const MemoryBio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  Certificate first(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), &X509_free);
  ERR_clear_error();
  return first;
}

template <typename Print>
std::string TextOf(Print print) {
  const MemoryBio bio(BIO_new(BIO_s_mem()), &BIO_free);
  print(bio.get());
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);  // NOLINT(google-runtime-int)
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "";
}

std::set<std::string> NamesOf(const X509& certificate) {
  std::set<std::string> texts;
  const AlternativeNames names(static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(
                                   &certificate, NID_subject_alt_name, nullptr, nullptr)),
                               &GENERAL_NAMES_free);
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    texts.insert(TextOf([name](BIO* bio) { GENERAL_NAME_print(bio, name); }));
  }
  return texts;
}

std::string IssuerOf(const X509& certificate) {
  return TextOf([&certificate](BIO* bio) {
    X509_NAME_print_ex(bio, X509_get_issuer_name(&certificate), 0, XN_FLAG_RFC2253);
  });
}

}  // namespace

CertificateChange ChangeOfCertificate(const std::string& former, const std::string& next) {
  CertificateChange change;
  const Certificate before = FirstOf(former);
  const Certificate after = FirstOf(next);
  if (before == nullptr || after == nullptr) return change;
  const std::set<std::string> had = NamesOf(*before);
  const std::set<std::string> has = NamesOf(*after);
  std::set_difference(had.begin(), had.end(), has.begin(), has.end(),
                      std::back_inserter(change.names_lost));
  if (IssuerOf(*before) != IssuerOf(*after)) {
    change.former_issuer = IssuerOf(*before);
    change.issuer = IssuerOf(*after);
  }
  // Of a malformed extension: the next user of the thread's queue would take them for its own.
  ERR_clear_error();
  return change;
}

}  // namespace idempotency::internal
