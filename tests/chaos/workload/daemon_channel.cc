#include "tests/chaos/workload/daemon_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "absl/flags/flag.h"

#include "grpc_idempotency/client/channel_arguments.h"

ABSL_FLAG(std::string, idempotencyd, "", "address of idempotencyd");
ABSL_FLAG(std::string, tls_ca, "",
          "PEM file of the authorities that issue idempotencyd's certificate; empty: no TLS");
ABSL_FLAG(std::string, tls_cert, "", "PEM file of the client certificate");
ABSL_FLAG(std::string, tls_key, "", "PEM file of that certificate's key");

namespace idempotency::internal::testing {
namespace {

// Its certificates have this name: it is called through links with other ones.
constexpr char kDaemonName[] = "idempotencyd";

std::string ReadFile(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  if (!file || content.str().empty()) {
    std::cerr << "cannot read " << path << "\n";
    std::exit(2);
  }
  return content.str();
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeDaemonChannel() {
  grpc::ChannelArguments arguments = IdempotencydChannelArguments();
  if (absl::GetFlag(FLAGS_tls_ca).empty()) {
    return grpc::CreateCustomChannel(absl::GetFlag(FLAGS_idempotencyd),
                                     grpc::InsecureChannelCredentials(), arguments);
  }
  grpc::SslCredentialsOptions files;
  files.pem_root_certs = ReadFile(absl::GetFlag(FLAGS_tls_ca));
  files.pem_cert_chain = ReadFile(absl::GetFlag(FLAGS_tls_cert));
  files.pem_private_key = ReadFile(absl::GetFlag(FLAGS_tls_key));
  arguments.SetSslTargetNameOverride(kDaemonName);
  return grpc::CreateCustomChannel(absl::GetFlag(FLAGS_idempotencyd), grpc::SslCredentials(files),
                                   arguments);
}

}  // namespace idempotency::internal::testing
