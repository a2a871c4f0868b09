#ifndef IDEMPOTENCY_CTL_TEXT_TABLE_H_
#define IDEMPOTENCY_CTL_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace idempotency::internal {

// Rows of printable text in aligned columns, separated by two spaces. Thread-compatible.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heading);

  // The row has as many cells as the heading.
  void AddRow(std::vector<std::string> cells);

  // A line for each row, below the heading. The widest columns are cut until a line fits into
  // `width` columns, as far as each keeps kMinColumns; 0: nothing is cut.
  std::string ToString(std::size_t width) const;

  static constexpr std::size_t kMinColumns = 8;

 private:
  std::vector<std::size_t> Widths(std::size_t width) const;

  std::vector<std::vector<std::string>> rows_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_TEXT_TABLE_H_
