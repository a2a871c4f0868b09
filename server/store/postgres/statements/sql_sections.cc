#include "server/store/postgres/statements/sql_sections.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "core/absl_view.h"

namespace idempotency::internal {
namespace {

// With its parameters behind `by` others.
std::string Shifted(const std::string& sql, int by) {
  std::string shifted;
  for (std::size_t at = 0; at < sql.size();) {
    shifted.push_back(sql[at]);
    if (sql[at++] != '$') continue;
    int number = 0;
    for (; at < sql.size() && absl::ascii_isdigit(sql[at]); ++at) {
      number = 10 * number + (sql[at] - '0');
    }
    absl::StrAppend(&shifted, number + by);
  }
  return shifted;
}

}  // namespace

SqlSections::SqlSections(absl::Span<const std::string_view> sources, Texts values)
    : texts_(std::move(values)) {
  for (const std::string_view source : sources) {
    std::string* section = nullptr;
    for (absl::string_view line : absl::StrSplit(AbslView(source), '\n')) {
      const bool is_statement = absl::ConsumePrefix(&line, "-- statement: ");
      if (is_statement) statement_names_.emplace_back(line);
      if (is_statement || absl::ConsumePrefix(&line, "-- piece: ")) {
        section = &texts_[std::string(line)];
      } else if (section != nullptr && !absl::StartsWith(line, "--")) {
        absl::StrAppend(section, line, "\n");
      }
    }
  }
}

PostgresStatement SqlSections::Statement(std::string_view name, ResultFormat results) {
  return statements_.emplace_back(PostgresStatement{std::string(name), Resolved(name), results});
}

std::string SqlSections::Filled(std::string_view sql) const {
  std::string text;
  while (true) {
    const std::size_t begin = sql.find('{');
    const std::size_t end = sql.find('}', begin);
    if (end == std::string_view::npos) break;
    text.append(sql.substr(0, begin));
    text.append(Resolved(sql.substr(begin + 1, end - begin - 1)));
    sql.remove_prefix(end + 1);
  }
  return text.append(sql);
}

std::string SqlSections::Resolved(std::string_view reference) const {
  const std::vector<absl::string_view> words = absl::StrSplit(AbslView(reference), " +");
  const auto found = texts_.find(std::string_view(words[0].data(), words[0].size()));
  if (found == texts_.end()) return absl::StrCat("{", AbslView(reference), "}");
  const absl::string_view section = absl::StripAsciiWhitespace(found->second);
  std::string text = Filled(std::string_view(section.data(), section.size()));
  int by = 0;
  return words.size() == 2 && absl::SimpleAtoi(words[1], &by) ? Shifted(text, by) : text;
}

}  // namespace idempotency::internal
