#ifndef IDEMPOTENCY_SERVER_PROCESS_LISTENER_CREDENTIALS_H_
#define IDEMPOTENCY_SERVER_PROCESS_LISTENER_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "server/console/tls_content.h"
#include "server/files/memory_file.h"
#include "server/observability/observer.h"
#include "server/process/certificate_change.h"
#include "server/process/command_line.h"
#include "server/service/periodic_thread.h"

namespace idempotency::internal {

// Certificates are renewed hours before they end; once per second costs reading two
// small files.
inline constexpr absl::Duration kCertificateRefresh = absl::Seconds(1);

// The listener's requirements for a connection: none without files, TLS with a
// certificate and a key, mutual TLS with an authority for clients as well.
//
// The files are checked every kCertificateRefresh until destruction. Once all of them
// meet Make()'s requirements, new connections get their content, within two seconds;
// existing connections continue. Until then the previous content stays in use: while a
// certificate does not match the key or is not valid yet, or a file is missing or half written,
// only the log changes. A client whose certificate has expired connects neither with it nor by a
// TLS session of before.
//
// Thread-compatible.
class ListenerCredentials {
 public:
  // Reads the files and checks them, since gRPC itself would only fail at every
  // handshake. INVALID_ARGUMENT names the flag and what is wrong: a file that
  // cannot be read, has no PEM, has expired (of authorities: all of them) or is not valid yet, or
  // a key that is not the certificate's. `observer` gets the validity of what is in use, and
  // outlives it.
  static absl::StatusOr<std::unique_ptr<ListenerCredentials>> Make(const ListenerTlsFiles& files,
                                                                   Observer& observer);
  ~ListenerCredentials() = default;
  ListenerCredentials(const ListenerCredentials&) = delete;
  ListenerCredentials& operator=(const ListenerCredentials&) = delete;

  const std::shared_ptr<grpc::ServerCredentials>& credentials() const { return credentials_; }
  // The content for new connections, for another listener of this process; null without TLS.
  // Thread-safe.
  std::shared_ptr<const TlsContent> content() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ListenerCredentials(const ListenerTlsFiles& files, Observer& observer)
      : files_(files), observer_(observer) {}

  static absl::StatusOr<TlsContent> Read(const ListenerTlsFiles& files);
  absl::Status StartWatching(TlsContent content);
  void Publish(TlsContent content) ABSL_LOCKS_EXCLUDED(mutex_);
  // Logs each authority that has expired since the last call.
  void WarnOfExpired(const std::string& authorities);
  // Logs what of a new certificate may make clients refuse it: it is used all the same.
  void WarnOfChange(const CertificateChange& change) const;
  void Refresh();

  const ListenerTlsFiles files_;
  Observer& observer_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;

  // The files that gRPC reads. Owned by the thread once that runs.
  std::optional<MemoryFile> identity_;
  std::optional<MemoryFile> client_ca_;
  mutable Mutex mutex_;
  // Null without TLS.
  std::shared_ptr<const TlsContent> current_ ABSL_GUARDED_BY(mutex_);
  // Why the files are not used now, or "".
  std::string complaint_;
  // The authorities in use that have expired, as they were logged.
  std::vector<std::string> expired_;

  std::optional<PeriodicThread> thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_LISTENER_CREDENTIALS_H_
