#ifndef IDEMPOTENCY_EXPLANATION_PRINTABLE_TEXT_H_
#define IDEMPOTENCY_EXPLANATION_PRINTABLE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace idempotency::internal {

// `text` of a caller, safe for a terminal: well-formed UTF-8 stays, except for control characters
// and characters that change the direction or are invisible, which are escaped as \u{N}; any other
// byte is escaped as \xNN. So no record can move the cursor, or make one text look like another.
std::string PrintableText(std::string_view text);

// The columns that a printable text takes: one for each code point. East Asian wide characters
// take two on most terminals, and are counted as one.
std::size_t ColumnsOf(std::string_view printable);

// The first `columns` columns of a printable text; a cut text ends with "…".
std::string CutToColumns(std::string_view printable, std::size_t columns);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_EXPLANATION_PRINTABLE_TEXT_H_
