#ifndef IDEMPOTENCY_SERVER_CONFIG_CONFIG_FAULTS_H_
#define IDEMPOTENCY_SERVER_CONFIG_CONFIG_FAULTS_H_

#include <google/protobuf/io/tokenizer.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {

// A longer list is not useful, and a hostile file must not fill the log.
inline constexpr std::size_t kMaxFaults = 20;

// The faults of a file, each with its line.
class ConfigFaults : public google::protobuf::io::ErrorCollector {
 public:
  explicit ConfigFaults(std::string path) : path_(std::move(path)) {}

  void Add(int line, absl::string_view fault) { Add(absl::StrCat(path_, ":", line, ": ", fault)); }
  // The parser counts from 0.
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    Add(absl::StrCat(path_, ":", line + 1, ":", column + 1, ": ", message));
  }

  absl::Status status() const {
    if (lines_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(lines_, "\n"));
  }

 private:
  void Add(std::string line) {
    if (lines_.size() < kMaxFaults) lines_.push_back(std::move(line));
  }

  const std::string path_;
  std::vector<std::string> lines_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONFIG_CONFIG_FAULTS_H_
