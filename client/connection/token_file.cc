#include "client/connection/token_file.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/limits.h"

namespace idempotency::internal {

TokenFile::TokenFile(std::string path, const Clock& clock)
    : path_(std::move(path)), clock_(clock), read_at_(clock.Monotonic()), token_(Read()) {}

absl::StatusOr<std::string> TokenFile::Read() const {
  std::ifstream file(path_, std::ios::binary);
  std::string content(limits::kMaxTokenBytes + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  if (file.bad() || (!file.is_open())) {
    return absl::UnavailableError(absl::StrCat(path_, " cannot be read"));
  }
  if (content.size() > limits::kMaxTokenBytes) {
    return absl::UnavailableError(
        absl::StrCat(path_, " is larger than ", limits::kMaxTokenBytes, " bytes"));
  }
  const std::string token(absl::StripAsciiWhitespace(content));
  const bool visible = std::all_of(token.begin(), token.end(),
                                   [](unsigned char c) { return absl::ascii_isgraph(c); });
  if (token.empty() || !visible) {
    return absl::UnavailableError(absl::StrCat(path_, " has no token of visible ASCII characters"));
  }
  return token;
}

absl::StatusOr<std::string> TokenFile::Token() {
  MutexLock lock(mutex_);
  const auto now = clock_.Monotonic();
  if (token_.ok() && now - read_at_ < kRefresh) return token_;
  read_at_ = now;
  absl::StatusOr<std::string> read = Read();
  if (read.ok() || !token_.ok()) token_ = std::move(read);
  return token_;
}

grpc::Status TokenFile::GetMetadata(grpc::string_ref /*service_url*/,
                                    grpc::string_ref /*method_name*/,
                                    const grpc::AuthContext& /*channel_auth_context*/,
                                    std::multimap<grpc::string, grpc::string>* metadata) {
  const absl::StatusOr<std::string> token = Token();
  if (!token.ok()) {
    return {grpc::StatusCode::UNAVAILABLE, std::string(token.status().message())};
  }
  metadata->emplace("authorization", absl::StrCat("Bearer ", *token));
  return grpc::Status::OK;
}

}  // namespace idempotency::internal
