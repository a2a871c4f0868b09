#include "ctl/text_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "explanation/printable_text.h"

namespace idempotency::internal {
namespace {

constexpr std::size_t kGap = 2;

}  // namespace

TextTable::TextTable(std::vector<std::string> heading) : columns_(heading.size()) {
  AddRow(std::move(heading));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    columns_[i] = std::max(columns_[i], ColumnsOf(cells[i]));
  }
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::Widths(std::size_t width) const {
  std::vector<std::size_t> widths = columns_;
  const std::size_t gaps = kGap * (widths.size() - 1);
  while (width > 0 && std::accumulate(widths.begin(), widths.end(), gaps) > width) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= kMinColumns) break;
    --*widest;
  }
  return widths;
}

std::string TextTable::TakeText(std::size_t width) {
  const std::vector<std::size_t> widths = Widths(width);
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = CutToColumns(row[i], widths[i]);
      line += cell;
      line.append(widths[i] - ColumnsOf(cell) + kGap, ' ');
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  rows_.clear();
  return text;
}

}  // namespace idempotency::internal
