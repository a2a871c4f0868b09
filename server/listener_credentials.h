#ifndef IDEMPOTENCY_SERVER_LISTENER_CREDENTIALS_H_
#define IDEMPOTENCY_SERVER_LISTENER_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/command_line.h"
#include "server/memory_file.h"
#include "server/stop_latch.h"

namespace idempotency::internal {

// Certificates are renewed hours before they end; a second costs two small files read.
inline constexpr absl::Duration kCertificateRefresh = absl::Seconds(1);

// What the listener asks of a connection: nothing without files, TLS with a
// certificate and a key, mutual TLS with an authority for clients as well.
//
// The files are looked at every kCertificateRefresh until destruction. Once all of them
// are as Make() wants them, new connections get what is in them, within two seconds;
// running ones go on. Until then the former ones stay: while a certificate stands beside
// another's key, or a file is missing or half written, nothing changes but the log.
//
// Thread-compatible.
class ListenerCredentials {
 public:
  // Reads the files and checks them, since gRPC itself would only fail at every
  // handshake. INVALID_ARGUMENT names the flag and what is wrong: a file that
  // cannot be read, that holds no PEM, that has expired, a key that is not the
  // certificate's.
  static absl::StatusOr<std::unique_ptr<ListenerCredentials>> Make(const TlsFiles& files);
  ~ListenerCredentials();
  ListenerCredentials(const ListenerCredentials&) = delete;
  ListenerCredentials& operator=(const ListenerCredentials&) = delete;

  const std::shared_ptr<grpc::ServerCredentials>& credentials() const { return credentials_; }

 private:
  // What the files hold.
  struct Content {
    // The key, then the certificate and its chain: one file, so that gRPC never reads
    // one of the two from before a change and the other from after it.
    std::string identity;
    std::string client_ca;

    bool operator==(const Content& other) const {
      return identity == other.identity && client_ca == other.client_ca;
    }
  };

  explicit ListenerCredentials(const TlsFiles& files) : files_(files) {}

  static absl::StatusOr<Content> Read(const TlsFiles& files);
  absl::Status StartWatching(Content content);
  void Watch();
  void Refresh();

  const TlsFiles files_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;

  // What gRPC reads. The thread's own once that runs.
  std::optional<MemoryFile> identity_;
  std::optional<MemoryFile> client_ca_;
  Content current_;
  // Why the files are not used now, or "".
  std::string complaint_;

  StopLatch stop_;
  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_LISTENER_CREDENTIALS_H_
