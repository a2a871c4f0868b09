#include "grpc_idempotency/client/channel_credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "client/connection/token_file.h"

namespace idempotency {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

// In which gRPC looks for changes.
constexpr unsigned kRefreshSeconds = 1;

// gRPC itself would only fail at every handshake.
absl::Status CheckReadable(const std::string& option, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::ifstream file(path, std::ios::binary);
  if (file.peek() != std::ifstream::traits_type::eof()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", path, " cannot be read, or is empty"));
}

absl::Status Check(const IdempotencydCredentialFiles& files) {
  if (files.certificate.empty() != files.key.empty()) {
    return absl::InvalidArgumentError("certificate and key must be set together");
  }
  for (const auto& [option, path] : {std::pair<std::string, const std::string&>("ca", files.ca),
                                     {"certificate", files.certificate},
                                     {"key", files.key},
                                     {"token", files.token}}) {
    if (absl::Status readable = CheckReadable(option, path); !readable.ok()) return readable;
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ChannelCredentials> Tls(const IdempotencydCredentialFiles& files) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (!files.certificate.empty()) {
    options.set_certificate_provider(std::make_shared<FileWatcherCertificateProvider>(
        files.key, files.certificate, files.ca, kRefreshSeconds));
    options.watch_identity_key_cert_pairs();
  } else if (!files.ca.empty()) {
    options.set_certificate_provider(
        std::make_shared<FileWatcherCertificateProvider>(files.ca, kRefreshSeconds));
  }
  if (!files.ca.empty()) options.watch_root_certs();
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> IdempotencydChannelCredentials(
    const IdempotencydCredentialFiles& files) {
  if (absl::Status valid = Check(files); !valid.ok()) return valid;
  std::shared_ptr<grpc::ChannelCredentials> tls = Tls(files);
  if (files.token.empty()) return tls;
  auto plugin = std::make_unique<internal::TokenFile>(files.token);
  if (const absl::Status read = plugin->Token().status(); !read.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("token: ", read.message()));
  }
  return grpc::CompositeChannelCredentials(tls,
                                           grpc::MetadataCredentialsFromPlugin(std::move(plugin)));
}

}  // namespace idempotency
