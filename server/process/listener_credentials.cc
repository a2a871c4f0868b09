#include "server/process/listener_credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

#include "server/files/file_content.h"
#include "server/observability/log.h"
#include "server/process/certificate_change.h"

namespace idempotency::internal {
namespace {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using MemoryBio = std::unique_ptr<BIO, decltype(&BIO_free)>;

absl::Status Wrong(absl::string_view flag, absl::string_view file, absl::string_view what) {
  // OpenSSL's queued errors are no longer needed, and must not appear in gRPC's
  // log.
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, "=", file, ": ", what));
}

absl::StatusOr<std::string> ReadFile(absl::string_view flag, const std::string& file) {
  absl::StatusOr<std::string> content = FileContent(file);
  if (!content.ok()) return Wrong(flag, file, content.status().message());
  if (content->empty()) return Wrong(flag, file, "is empty");
  return content;
}

MemoryBio Open(const std::string& pem) {
  return MemoryBio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
}

// No prompt for the passphrase of a key file: a daemon has no terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

std::vector<Certificate> ParseCertificates(const std::string& pem) {
  std::vector<Certificate> certificates;
  const MemoryBio bio = Open(pem);
  for (;;) {
    Certificate next(PEM_read_bio_X509(bio.get(), nullptr, &NoPassphrase, nullptr), &X509_free);
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  // That of the end of the text.
  ERR_clear_error();
  return certificates;
}

// The first one.
Certificate ParseCertificate(const std::string& pem) {
  return Certificate(PEM_read_bio_X509(Open(pem).get(), nullptr, &NoPassphrase, nullptr),
                     &X509_free);
}

PrivateKey ParseKey(const std::string& pem) {
  return PrivateKey(PEM_read_bio_PrivateKey(Open(pem).get(), nullptr, &NoPassphrase, nullptr),
                    &EVP_PKEY_free);
}

bool HasExpired(const Certificate& certificate) {
  return X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0;
}

// The clocks of an authority and of this machine differ.
constexpr absl::Duration kClockTolerance = absl::Minutes(1);

bool IsValidYet(const Certificate& certificate) {
  std::time_t latest = absl::ToTimeT(absl::Now() + kClockTolerance);
  return X509_cmp_time(X509_get0_notBefore(certificate.get()), &latest) < 0;
}

// Of a chain, whose first certificate is the server's.
absl::Status CheckCertificate(absl::string_view flag, const std::string& file,
                              const std::string& pem) {
  const Certificate certificate = ParseCertificate(pem);
  if (certificate == nullptr) return Wrong(flag, file, "contains no certificate in PEM form");
  if (HasExpired(certificate)) {
    return Wrong(flag, file, "contains a certificate that has expired");
  }
  // Clients would refuse it, also in the place of one that is valid.
  if (!IsValidYet(certificate)) {
    return Wrong(flag, file, "contains a certificate that is not valid yet");
  }
  return absl::OkStatus();
}

// In any order: during a rotation the old authority may expire before it is removed.
absl::Status CheckAuthorities(absl::string_view flag, const std::string& file,
                              const std::string& pem) {
  const std::vector<Certificate> authorities = ParseCertificates(pem);
  if (authorities.empty()) return Wrong(flag, file, "contains no certificate in PEM form");
  if (std::all_of(authorities.begin(), authorities.end(), HasExpired)) {
    return Wrong(flag, file, "contains only certificates that have expired");
  }
  return absl::OkStatus();
}

absl::Status CheckKey(const ListenerTlsFiles& files, const std::string& certificate_pem,
                      const std::string& key_pem) {
  const PrivateKey key = ParseKey(key_pem);
  if (key == nullptr) {
    return Wrong("tls_key", files.key, "contains no private key in PEM form without a passphrase");
  }
  const Certificate certificate = ParseCertificate(certificate_pem);
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Wrong("tls_key", files.key, "is not the key of the certificate in --tls_cert");
  }
  return absl::OkStatus();
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts{};
  // It cannot fail for a certificate that OpenSSL parsed, except for years beyond a tm's.
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfiniteFuture();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

// Of the certificate that expires first: with it, some of the connections end.
CertificateValidity FirstToExpire(const std::string& pem) {
  CertificateValidity first{absl::InfinitePast(), absl::InfiniteFuture()};
  for (const Certificate& certificate : ParseCertificates(pem)) {
    const absl::Time not_after = TimeOf(X509_get0_notAfter(certificate.get()));
    if (not_after >= first.not_after) continue;
    first = {TimeOf(X509_get0_notBefore(certificate.get())), not_after};
  }
  return first;
}

// Each with its subject and its end, for the log.
std::vector<std::string> ExpiredOf(const std::string& pem) {
  std::vector<std::string> expired;
  for (const Certificate& certificate : ParseCertificates(pem)) {
    if (!HasExpired(certificate)) continue;
    const MemoryBio subject(BIO_new(BIO_s_mem()), &BIO_free);
    X509_NAME_print_ex(subject.get(), X509_get_subject_name(certificate.get()), 0, XN_FLAG_RFC2253);
    char* text = nullptr;
    const auto size = static_cast<std::size_t>(BIO_get_mem_data(subject.get(), &text));
    expired.push_back(absl::StrCat(
        absl::string_view(text, size), ", ",
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", TimeOf(X509_get0_notAfter(certificate.get())),
                         absl::UTCTimeZone())));
  }
  return expired;
}

// A handshake that resumes a session takes the client's certificate from the session and does not
// verify it again; gRPC's servers resume sessions, and each gives the client a ticket for the next.
// This is called after every handshake.
class RefusesExpiredClients final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* sync_status) override {
    const grpc::string_ref pem = request->peer_cert();
    const Certificate certificate = ParseCertificate(std::string(pem.data(), pem.size()));
    ERR_clear_error();
    if (certificate == nullptr || HasExpired(certificate)) {
      *sync_status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                                  "the client's certificate has expired, or cannot be read");
    }
    return true;
  }
  // Nothing is ever pending.
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest* /*request*/) override {}
};

// The current and future content of these files.
std::shared_ptr<grpc::ServerCredentials> Watched(const std::string& identity,
                                                 const std::string& client_ca) {
  using grpc::experimental::FileWatcherCertificateProvider;
  using grpc::experimental::TlsServerCredentialsOptions;
  const auto seconds = static_cast<unsigned>(absl::ToInt64Seconds(kCertificateRefresh));
  TlsServerCredentialsOptions options(
      client_ca.empty()
          ? std::make_shared<FileWatcherCertificateProvider>(identity, identity, seconds)
          : std::make_shared<FileWatcherCertificateProvider>(identity, identity, client_ca,
                                                             seconds));
  options.watch_identity_key_cert_pairs();
  if (!client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.set_certificate_verifier(
        grpc::experimental::ExternalCertificateVerifier::Create<RefusesExpiredClients>());
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ListenerCredentials>> ListenerCredentials::Make(
    const ListenerTlsFiles& files, Observer& observer) {
  // Private constructor.
  std::unique_ptr<ListenerCredentials> made(new ListenerCredentials(files, observer));
  if (files.certificate.empty()) {
    made->credentials_ = grpc::InsecureServerCredentials();
    return made;
  }
  absl::StatusOr<TlsContent> content = Read(files);
  if (!content.ok()) return content.status();
  if (absl::Status watching = made->StartWatching(*std::move(content)); !watching.ok()) {
    return watching;
  }
  return made;
}

absl::StatusOr<TlsContent> ListenerCredentials::Read(const ListenerTlsFiles& files) {
  absl::StatusOr<std::string> certificate = ReadFile("tls_cert", files.certificate);
  if (!certificate.ok()) return certificate.status();
  absl::Status checked = CheckCertificate("tls_cert", files.certificate, *certificate);
  if (!checked.ok()) return checked;

  absl::StatusOr<std::string> key = ReadFile("tls_key", files.key);
  if (!key.ok()) return key.status();
  checked = CheckKey(files, *certificate, *key);
  if (!checked.ok()) return checked;

  TlsContent content{absl::StrCat(*key, "\n", *certificate), ""};
  if (!files.client_ca.empty()) {
    absl::StatusOr<std::string> authority = ReadFile("tls_client_ca", files.client_ca);
    if (!authority.ok()) return authority.status();
    checked = CheckAuthorities("tls_client_ca", files.client_ca, *authority);
    if (!checked.ok()) return checked;
    content.client_ca = *std::move(authority);
  }
  return content;
}

absl::Status ListenerCredentials::StartWatching(TlsContent content) {
  absl::StatusOr<MemoryFile> identity = MemoryFile::Make(content.identity);
  if (!identity.ok()) return identity.status();
  absl::StatusOr<MemoryFile> client_ca = MemoryFile::Make(content.client_ca);
  if (!client_ca.ok()) return client_ca.status();
  credentials_ = Watched(identity->path(), files_.client_ca.empty() ? "" : client_ca->path());
  identity_ = *std::move(identity);
  client_ca_ = *std::move(client_ca);
  WarnOfExpired(content.client_ca);
  Publish(std::move(content));
  thread_.emplace("certificates", kCertificateRefresh, [this] {
    Refresh();
    return kCertificateRefresh;
  });
  return absl::OkStatus();
}

void ListenerCredentials::Publish(TlsContent content) {
  observer_.CertificateLoaded(CertificateUse::kServer, FirstToExpire(content.identity));
  if (!content.client_ca.empty()) {
    observer_.CertificateLoaded(CertificateUse::kClientCa, FirstToExpire(content.client_ca));
  }
  auto published = std::make_shared<const TlsContent>(std::move(content));
  MutexLock lock(mutex_);
  current_ = std::move(published);
}

std::shared_ptr<const TlsContent> ListenerCredentials::content() const {
  MutexLock lock(mutex_);
  return current_;
}

void ListenerCredentials::WarnOfExpired(const std::string& authorities) {
  std::vector<std::string> expired = ExpiredOf(authorities);
  for (const std::string& authority : expired) {
    if (std::find(expired_.begin(), expired_.end(), authority) != expired_.end()) continue;
    Log(LogLevel::kWarn, "an authority of clients has expired: its clients cannot connect",
        {{"tls_client_ca", files_.client_ca},
         {"authority", authority},
         {"advice", "remove it from the file, or renew it"}});
  }
  expired_ = std::move(expired);
}

void ListenerCredentials::WarnOfChange(const CertificateChange& change) const {
  if (!change.names_lost.empty()) {
    Log(LogLevel::kWarn,
        "the new certificate lacks names of the previous one: clients that use them refuse it",
        {{"tls_cert", files_.certificate}, {"names", absl::StrJoin(change.names_lost, " ")}});
  }
  if (change.issuer != change.former_issuer) {
    Log(LogLevel::kWarn,
        "the new certificate has another issuer: clients that do not trust it refuse it",
        {{"tls_cert", files_.certificate},
         {"issuer", change.issuer},
         {"previous_issuer", change.former_issuer}});
  }
}

void ListenerCredentials::Refresh() {
  absl::StatusOr<TlsContent> content = Read(files_);
  absl::Status refused = content.status();
  const std::shared_ptr<const TlsContent> former = this->content();
  if (refused.ok() && !(*content == *former)) {
    refused = identity_->Replace(content->identity);
    if (refused.ok()) refused = client_ca_->Replace(content->client_ca);
    if (refused.ok()) {
      const CertificateChange change = ChangeOfCertificate(former->identity, content->identity);
      Publish(*std::move(content));
      Log(LogLevel::kInfo, "certificates replaced", {{"tls_cert", files_.certificate}});
      WarnOfChange(change);
    }
  }
  WarnOfExpired(this->content()->client_ca);
  const std::string complaint(refused.message());
  if (std::exchange(complaint_, complaint) == complaint || complaint.empty()) return;
  Log(LogLevel::kWarn, "certificates cannot be used, the previous ones stay in use",
      {{"error", complaint}, {"advice", "correct the files; they are read again every second"}});
}

}  // namespace idempotency::internal
