#ifndef IDEMPOTENCY_CLIENT_CONNECTION_TOKEN_FILE_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_TOKEN_FILE_H_

#include <grpcpp/security/credentials.h>

#include <chrono>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"

#include "core/clock.h"
#include "core/mutex.h"

namespace idempotency::internal {

// Adds `authorization: Bearer TOKEN` with the token of a file to calls. Thread-safe.
class TokenFile final : public grpc::MetadataCredentialsPlugin {
 public:
  // A token is valid for minutes at least, and reading a small file costs little.
  static constexpr std::chrono::seconds kRefresh{1};

  // `clock` outlives it.
  explicit TokenFile(std::string path, const Clock& clock = Clock::System());

  // A file may be on a network: gRPC calls it on a thread of its own.
  bool IsBlocking() const override { return true; }
  const char* GetType() const override { return "idempotency-token-file"; }
  grpc::Status GetMetadata(grpc::string_ref service_url, grpc::string_ref method_name,
                           const grpc::AuthContext& channel_auth_context,
                           std::multimap<grpc::string, grpc::string>* metadata) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The token, read again if the last reading is kRefresh ago. UNAVAILABLE if it was never read.
  absl::StatusOr<std::string> Token() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The file's token; UNAVAILABLE with what is wrong.
  absl::StatusOr<std::string> Read() const;

  const std::string path_;
  const Clock& clock_;
  Mutex mutex_;
  std::chrono::steady_clock::time_point read_at_ ABSL_GUARDED_BY(mutex_);
  // The last token that could be read, or why there is none.
  absl::StatusOr<std::string> token_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_TOKEN_FILE_H_
