#ifndef IDEMPOTENCY_CTL_ENVOY_YAML_TEXT_H_
#define IDEMPOTENCY_CTL_ENVOY_YAML_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace idempotency::internal {

// YAML as text: the comments are as important as the values, and a library that writes YAML places
// them where it likes.

// `text` as a scalar of YAML, in double quotes: no content ends the scalar.
std::string YamlString(absl::string_view text);

// `block` with each line moved right by `columns`; empty lines stay empty. A block ends with a line
// break, unless it is empty.
std::string Indented(absl::string_view block, int columns);

// `block` as an item of a list: its first line that is no comment gets the dash.
std::string ListItem(absl::string_view block);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_ENVOY_YAML_TEXT_H_
