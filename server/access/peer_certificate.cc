#include "server/access/peer_certificate.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <vector>

#include "core/utf8.h"

namespace idempotency::internal {
namespace {

using AlternativeNames = std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)>;
using MemoryBio = std::unique_ptr<BIO, decltype(&BIO_free)>;

void AddName(const ASN1_STRING* text, std::vector<std::string>& names) {
  std::string name(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                   static_cast<std::size_t>(ASN1_STRING_length(text)));
  if (!name.empty() && IsUtf8WithoutControls(name)) names.push_back(std::move(name));
}

// As RFC 4514 writes it; "" if it cannot be written.
std::string SubjectOf(const X509& certificate) {
  const MemoryBio text(BIO_new(BIO_s_mem()), &BIO_free);
  if (text == nullptr ||
      X509_NAME_print_ex(text.get(), X509_get_subject_name(&certificate), 0, XN_FLAG_RFC2253) < 0) {
    return "";
  }
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : "";
}

}  // namespace

void ReadCertificate(const X509& certificate, Credentials& credentials) {
  credentials.certificate = true;
  credentials.subject = SubjectOf(certificate);
  const AlternativeNames names(static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(
                                   &certificate, NID_subject_alt_name, nullptr, nullptr)),
                               &GENERAL_NAMES_free);
  if (names == nullptr) return;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_URI) AddName(name->d.uniformResourceIdentifier, credentials.uris);
    if (name->type == GEN_DNS) AddName(name->d.dNSName, credentials.dns_names);
  }
}

}  // namespace idempotency::internal
