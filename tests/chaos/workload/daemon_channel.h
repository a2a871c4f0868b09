#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_DAEMON_CHANNEL_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_DAEMON_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>

namespace idempotency::internal::testing {

// To idempotencyd, by the command line: --idempotencyd is its address; with --tls_ca, --tls_cert
// and --tls_key both sides present certificates. Exits the process if a file cannot be read.
std::shared_ptr<grpc::Channel> MakeDaemonChannel();

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_DAEMON_CHANNEL_H_
