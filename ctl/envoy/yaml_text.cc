#include "ctl/envoy/yaml_text.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace idempotency::internal {
namespace {

std::vector<absl::string_view> Lines(absl::string_view block) {
  absl::ConsumeSuffix(&block, "\n");
  if (block.empty()) return {};
  return absl::StrSplit(block, '\n');
}

}  // namespace

std::string YamlString(absl::string_view text) {
  std::string quoted = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') {
      absl::StrAppend(&quoted, "\\", absl::string_view(&character, 1));
    } else if (static_cast<unsigned char>(character) < 0x20 || character == 0x7f) {
      absl::StrAppend(&quoted, absl::StrFormat("\\x%02x", static_cast<unsigned char>(character)));
    } else {
      quoted += character;
    }
  }
  return quoted + "\"";
}

std::string Indented(absl::string_view block, int columns) {
  const std::string space(static_cast<std::size_t>(columns), ' ');
  std::string moved;
  for (const absl::string_view line : Lines(block)) {
    absl::StrAppend(&moved, line.empty() ? "" : space, line, "\n");
  }
  return moved;
}

std::string ListItem(absl::string_view block) {
  std::string item;
  bool has_dash = false;
  for (const absl::string_view line : Lines(block)) {
    if (!has_dash && absl::StartsWith(line, "#")) {
      absl::StrAppend(&item, line, "\n");
    } else {
      absl::StrAppend(&item, line.empty() ? "" : (has_dash ? "  " : "- "), line, "\n");
      has_dash = true;
    }
  }
  return item;
}

}  // namespace idempotency::internal
