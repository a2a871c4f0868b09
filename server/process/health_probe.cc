#include "server/process/health_probe.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.grpc.pb.h"

#include "grpc_idempotency/deadline.h"
#include "server/files/file_content.h"
#include "server/process/serving_process.h"

namespace idempotency::internal {

using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;

namespace {

using Credentials = std::shared_ptr<grpc::ChannelCredentials>;

absl::StatusOr<std::string> ReadFile(absl::string_view flag, const std::string& file) {
  if (file.empty()) return std::string();
  absl::StatusOr<std::string> content = FileContent(file);
  if (content.ok() && !content->empty()) return content;
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, "=", file, ": ", content.ok() ? "is empty" : content.status().message()));
}

// The server to call.
struct Target {
  NetworkAddress address;
  bool tls = false;
  std::string certificate;
  std::string key;
  // The certificate is the server's own.
  bool presents_servers = false;
};

absl::StatusOr<Target> FindTarget(const HealthOptions& options, const std::string& proc) {
  Target target;
  target.certificate = options.tls_certificate;
  target.key = options.tls_key;
  if (options.address.has_value()) {
    target.address = *options.address;
    target.tls = options.tls || !options.tls_ca.empty() || !options.tls_certificate.empty();
    return target;
  }
  const absl::StatusOr<ServeOptions> serving = FindServingProcess(proc);
  if (!serving.ok()) return serving.status();
  target.address = serving->listen;
  target.tls = !serving->tls.certificate.empty();
  if (!serving->tls.client_ca.empty() && target.certificate.empty()) {
    target.certificate = serving->tls.certificate;
    target.key = serving->tls.key;
    target.presents_servers = true;
  }
  return target;
}

absl::StatusOr<Credentials> CredentialsFor(const Target& target, const HealthOptions& options) {
  if (!target.tls) return grpc::InsecureChannelCredentials();
  const absl::StatusOr<std::string> authority = ReadFile("tls_ca", options.tls_ca);
  if (!authority.ok()) return authority.status();
  const absl::StatusOr<std::string> certificate = ReadFile("tls_cert", target.certificate);
  if (!certificate.ok()) return certificate.status();
  const absl::StatusOr<std::string> key = ReadFile("tls_key", target.key);
  if (!key.ok()) return key.status();
  if (!authority->empty()) return grpc::SslCredentials({*authority, *key, *certificate});

  using grpc::experimental::IdentityKeyCertPair;
  grpc::experimental::TlsChannelCredentialsOptions tls;
  if (!certificate->empty()) {
    tls.set_certificate_provider(
        std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
            std::vector<IdentityKeyCertPair>{{*key, *certificate}}));
    tls.watch_identity_key_cert_pairs();
  }
  tls.set_verify_server_certs(false);
  tls.set_check_call_host(false);
  tls.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  return grpc::experimental::TlsCredentials(tls);
}

using Stub = ::grpc::health::v1::Health::StubInterface;

// Between two tries.
constexpr absl::Duration kPause = absl::Milliseconds(200);

// With a connection of its own. Between calls no thread of this process polls, and a connection of
// an earlier try would advance only every 5 s, by one step of its handshake: a call on a new
// connection polls until it is established or has failed.
std::unique_ptr<Stub> ConnectAnew(const Target& target, const Credentials& credentials,
                                  const HealthOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!options.tls_name.empty()) arguments.SetSslTargetNameOverride(options.tls_name);
  return ::grpc::health::v1::Health::NewStub(
      grpc::CreateCustomChannel(target.address.ToString(), credentials, arguments));
}

// What to do if the server closed the connection without an answer: it does so if it uses TLS and
// the probe does not, and if it refuses the probe's certificate.
std::string AdviceIfClosed(const Target& target) {
  if (!target.tls) return "if it uses TLS, set --tls_ca, or --tls on its machine";
  if (target.certificate.empty()) {
    return "if it uses mutual TLS, set --tls_cert and --tls_key";
  }
  constexpr absl::string_view kNeeds =
      "--tls_client_ca of the server must have its authority, and an extended key usage must "
      "include clientAuth";
  if (!target.presents_servers) {
    return absl::StrCat("if it refuses the certificate ", target.certificate, ": ", kNeeds);
  }
  return absl::StrCat("if it refuses its own certificate ", target.certificate,
                      ", which the probe presents: ", kNeeds,
                      "; or set --tls_cert and --tls_key to a certificate for the probe");
}

absl::Status NotServing(const Target& target, const std::string& message) {
  const std::string failure =
      absl::StrCat(target.address.ToString(), " did not report that it serves: ", message);
  if (!absl::StrContains(message, "Socket closed")) return absl::UnavailableError(failure);
  return absl::UnavailableError(
      absl::StrCat(failure, "; ", AdviceIfClosed(target),
                   "; or there are too many connections (idempotency_connections_refused_total)"));
}

absl::Status Check(const Target& target, const Credentials& credentials,
                   const HealthOptions& options) {
  const std::unique_ptr<Stub> stub = ConnectAnew(target, credentials, options);
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadlineIn(options.timeout));
  HealthCheckRequest request;
  request.set_service(options.service);
  HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  if (!status.ok()) return NotServing(target, status.error_message());
  if (response.status() != HealthCheckResponse::SERVING) {
    return absl::UnavailableError(
        absl::StrCat(target.address.ToString(), " is ",
                     HealthCheckResponse::ServingStatus_Name(response.status())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ProbeHealth(const HealthOptions& options, const std::string& proc) {
  const absl::StatusOr<Target> target = FindTarget(options, proc);
  if (!target.ok()) return target.status();
  const absl::StatusOr<Credentials> credentials = CredentialsFor(*target, options);
  if (!credentials.ok()) return credentials.status();
  const SteadyTime end = DeadlineIn(options.wait);
  for (;;) {
    absl::Status serving = Check(*target, *credentials, options);
    if (serving.ok() || TimeUntil(end, std::chrono::steady_clock::now()) <= kPause) return serving;
    absl::SleepFor(kPause);
  }
}

}  // namespace idempotency::internal
