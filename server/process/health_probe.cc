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
#include "absl/strings/str_cat.h"
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
};

absl::StatusOr<Target> FindTarget(const HealthOptions& options) {
  Target target;
  target.certificate = options.tls_certificate;
  target.key = options.tls_key;
  if (options.address.has_value()) {
    target.address = *options.address;
    target.tls = options.tls || !options.tls_ca.empty() || !options.tls_certificate.empty();
    return target;
  }
  const absl::StatusOr<ServeOptions> serving = FindServingProcess();
  if (!serving.ok()) return serving.status();
  target.address = serving->listen;
  target.tls = !serving->tls.certificate.empty();
  if (!serving->tls.client_ca.empty() && target.certificate.empty()) {
    target.certificate = serving->tls.certificate;
    target.key = serving->tls.key;
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

absl::StatusOr<std::unique_ptr<Stub>> StubFor(const Target& target, const HealthOptions& options) {
  const absl::StatusOr<Credentials> credentials = CredentialsFor(target, options);
  if (!credentials.ok()) return credentials.status();
  grpc::ChannelArguments arguments;
  if (!options.tls_name.empty()) arguments.SetSslTargetNameOverride(options.tls_name);
  // A server that starts meanwhile is found at the next try.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(kPause)));
  return ::grpc::health::v1::Health::NewStub(
      grpc::CreateCustomChannel(target.address.ToString(), *credentials, arguments));
}

absl::Status Check(Stub& stub, const std::string& address, const HealthOptions& options) {
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadlineIn(options.timeout));
  HealthCheckRequest request;
  request.set_service(options.service);
  HealthCheckResponse response;
  const grpc::Status status = stub.Check(&context, request, &response);
  if (!status.ok()) {
    return absl::UnavailableError(
        absl::StrCat(address, " did not report that it serves: ", status.error_message()));
  }
  if (response.status() != HealthCheckResponse::SERVING) {
    return absl::UnavailableError(
        absl::StrCat(address, " is ", HealthCheckResponse::ServingStatus_Name(response.status())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ProbeHealth(const HealthOptions& options) {
  const absl::StatusOr<Target> target = FindTarget(options);
  if (!target.ok()) return target.status();
  const auto stub = StubFor(*target, options);
  if (!stub.ok()) return stub.status();
  const SteadyTime end = DeadlineIn(options.wait);
  for (;;) {
    absl::Status serving = Check(**stub, target->address.ToString(), options);
    if (serving.ok() || TimeUntil(end, std::chrono::steady_clock::now()) <= kPause) return serving;
    absl::SleepFor(kPause);
  }
}

}  // namespace idempotency::internal
