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

  // A line for each row that was added since the last call, the first time below the heading. A
  // column is never narrower than before. The widest columns are cut until a line fits into `width`
  // columns, as far as each keeps kMinColumns; 0: nothing is cut.
  std::string TakeText(std::size_t width);

  static constexpr std::size_t kMinColumns = 8;

 private:
  std::vector<std::size_t> Widths(std::size_t width) const;

  // Without those that were taken.
  std::vector<std::vector<std::string>> rows_;
  // The most columns that a cell took, also of those rows.
  std::vector<std::size_t> columns_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_TEXT_TABLE_H_
