#ifndef IDEMPOTENCY_SERVER_CONFIG_CONFIG_PLACE_H_
#define IDEMPOTENCY_SERVER_CONFIG_CONFIG_PLACE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <string>

namespace idempotency::internal {

// A message of the file and the lines of its fields.
class ConfigPlace {
 public:
  using Tree = google::protobuf::TextFormat::ParseInfoTree;

  ConfigPlace(const google::protobuf::Descriptor& type, Tree* tree, int own_line)
      : type_(type), tree_(tree), own_line_(own_line) {}

  // The line of the field, or of the message if the field is not set. Not for repeated fields.
  int LineOf(const std::string& field) const { return LineAt(field, -1); }
  // The first line of a repeated field of scalars that has at least one value: the parser keeps one
  // location for a list in brackets.
  int FirstLineOf(const std::string& field) const { return LineAt(field, 0); }
  // The place of a field that is a message.
  ConfigPlace At(const std::string& field, int index) const {
    const auto* const descriptor = type_.FindFieldByName(field);
    Tree* const nested = tree_ == nullptr ? nullptr : tree_->GetTreeForNested(descriptor, index);
    return {*descriptor->message_type(), nested, LineAt(field, index)};
  }
  // The place of a field that is one message and is set.
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

#endif  // IDEMPOTENCY_SERVER_CONFIG_CONFIG_PLACE_H_
