#include "ctl/connection_flags.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/connection/token_file.h"
#include "ctl/local_address.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/channel_credentials.h"

namespace idempotency::internal {
namespace {

void ReadVariable(const char* name, std::string* value) {
  const char* const text = std::getenv(name);
  if (text != nullptr && *text != '\0') *value = text;
}

}  // namespace

ConnectionFlags::ConnectionFlags() {
  ReadVariable("IDEMPOTENCYCTL_ADDRESS", &address_);
  ReadVariable("IDEMPOTENCYCTL_TLS_CA", &ca_);
  ReadVariable("IDEMPOTENCYCTL_TLS_CERT", &certificate_);
  ReadVariable("IDEMPOTENCYCTL_TLS_KEY", &key_);
  ReadVariable("IDEMPOTENCYCTL_TLS_NAME", &certificate_name_);
  ReadVariable("IDEMPOTENCYCTL_TOKEN_FILE", &token_file_);
}

void ConnectionFlags::AddTo(FlagSet& flags) {
  flags.AddText("address", "ADDRESS", &address_,
                "The idempotencyd to call, as gRPC writes targets: HOST:PORT, dns:///NAME:PORT or\n"
                "unix:PATH. Also IDEMPOTENCYCTL_ADDRESS.");
  flags.AddSwitch("tls", &tls_,
                  "Use TLS, with the authorities that the system trusts. Each of the next three\n"
                  "flags does so too.");
  flags.AddText("tls_ca", "FILE", &ca_,
                "PEM file of the authorities of the server's certificate. Also\n"
                "IDEMPOTENCYCTL_TLS_CA.");
  flags.AddText("tls_cert", "FILE", &certificate_,
                "PEM file of the client's certificate chain, for mutual TLS. Also\n"
                "IDEMPOTENCYCTL_TLS_CERT.");
  flags.AddText("tls_key", "FILE", &key_,
                "PEM file of that certificate's private key. Also IDEMPOTENCYCTL_TLS_KEY.");
  flags.AddText("tls_name", "NAME", &certificate_name_,
                "The name in the server's certificate, if it is not the host of the address. Also\n"
                "IDEMPOTENCYCTL_TLS_NAME.");
  flags.AddText("token_file", "FILE", &token_file_,
                "File with a bearer token. Also IDEMPOTENCYCTL_TOKEN_FILE.");
  flags.AddSwitch("allow_plaintext", &allow_plaintext_,
                  "Call another machine without TLS. Requests and answers can then be read\n"
                  "and changed on the network; a token is not sent.");
  flags.AddDuration("timeout", &timeout_, absl::Milliseconds(100), absl::Minutes(10),
                    "Time limit of each call.");
}

bool ConnectionFlags::has_tls() const {
  return tls_ || !ca_.empty() || !certificate_.empty() || !key_.empty();
}

std::string ConnectionFlags::AdviceIfClosed() const {
  if (!has_tls()) {
    return "if it uses TLS, set --tls_ca; with mutual TLS also --tls_cert and --tls_key";
  }
  if (certificate_.empty()) return "if it uses mutual TLS, set --tls_cert and --tls_key";
  return absl::StrCat("if it refuses the certificate ", certificate_,
                      ": --tls_client_ca of the server must have its authority, and an extended "
                      "key usage must include clientAuth");
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ConnectionFlags::Credentials() const {
  if (has_tls()) {
    return IdempotencydChannelCredentials({ca_, certificate_, key_, token_file_});
  }
  if (!IsLocal(address_) && !allow_plaintext_) {
    return absl::InvalidArgumentError(
        absl::StrCat("--address=", address_, " is another machine: set --tls, or --tls_ca=FILE"));
  }
  if (!token_file_.empty() && !IsLocal(address_)) {
    return absl::InvalidArgumentError("--token_file is sent over TLS only: set --tls, or --tls_ca");
  }
  return grpc::InsecureChannelCredentials();
}

absl::StatusOr<std::unique_ptr<Service>> ConnectionFlags::Connect() const {
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials = Credentials();
  if (!credentials.ok()) return credentials.status();
  Service::Options options;
  options.address = address_;
  options.timeout = timeout_;
  options.advice_if_closed = AdviceIfClosed();
  if (!has_tls() && !token_file_.empty()) {
    absl::StatusOr<std::string> token = TokenFile(token_file_).Token();
    if (!token.ok()) return absl::InvalidArgumentError(token.status().message());
    options.local_token = *std::move(token);
  }
  grpc::ChannelArguments arguments = IdempotencydChannelArguments(certificate_name_);
  // The environment may name a proxy, which is another machine.
  if (IsLocal(address_)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return std::make_unique<Service>(grpc::CreateCustomChannel(address_, *credentials, arguments),
                                   std::move(options));
}

}  // namespace idempotency::internal
