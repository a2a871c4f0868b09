#ifndef IDEMPOTENCY_SERVER_CONFIG_CONFIG_FAULTS_H_
#define IDEMPOTENCY_SERVER_CONFIG_CONFIG_FAULTS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {

// A longer list helps nobody, and a hostile file must not fill the log.
inline constexpr std::size_t kMaxFaults = 20;

// The faults of a file, each with its line.
class ConfigFaults : public google::protobuf::io::ErrorCollector {
 public:
  explicit ConfigFaults(std::string path) : path_(std::move(path)) {}

  void Add(int line, absl::string_view fault) {
    if (lines_.size() < kMaxFaults) lines_.push_back(absl::StrCat(path_, ":", line, ": ", fault));
  }
  // The parser counts from 0.
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    lines_.push_back(absl::StrCat(path_, ":", line + 1, ":", column + 1, ": ", message));
  }

  absl::Status status() const {
    if (lines_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(lines_, "\n"));
  }

 private:
  const std::string path_;
  std::vector<std::string> lines_;
};

// A message of the file and the lines of its fields.
class ConfigPlace {
 public:
  using Tree = google::protobuf::TextFormat::ParseInfoTree;

  ConfigPlace(const google::protobuf::Descriptor& type, Tree* tree, int own_line)
      : type_(type), tree_(tree), own_line_(own_line) {}

  // Of the message itself if the field is not set. Not for repeated fields.
  int LineOf(const std::string& field) const { return LineAt(field, -1); }
  // Where a repeated field of scalars begins, which has at least one value: the parser keeps one
  // location for a list in brackets.
  int FirstLineOf(const std::string& field) const { return LineAt(field, 0); }
  // Of a field that is a message.
  ConfigPlace At(const std::string& field, int index) const {
    const auto* const descriptor = type_.FindFieldByName(field);
    Tree* const nested = tree_ == nullptr ? nullptr : tree_->GetTreeForNested(descriptor, index);
    return {*descriptor->message_type(), nested, LineAt(field, index)};
  }
  // Of a field that is one message and is set.
  ConfigPlace In(const std::string& field) const { return At(field, -1); }
  int own_line() const { return own_line_; }

 private:
  int LineAt(const std::string& field, int index) const {
    if (tree_ == nullptr) return own_line_;
    const google::protobuf::TextFormat::ParseLocation at =
        tree_->GetLocation(type_.FindFieldByName(field), index);
    return at.line < 0 ? own_line_ : at.line + 1;
  }

  const google::protobuf::Descriptor& type_;
  Tree* const tree_;
  const int own_line_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_CONFIG_CONFIG_FAULTS_H_
