#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_HEADER_LIST_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_HEADER_LIST_H_

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "envoy/config/core/v3/base.pb.h"

namespace idempotency::internal {

// The headers or trailers of one HTTP message, in their order. A value type.
class HeaderList {
 public:
  using Header = std::pair<std::string, std::string>;

  HeaderList() = default;
  HeaderList(std::initializer_list<Header> headers) : headers_(headers) {}
  // Names become lower case.
  explicit HeaderList(const envoy::config::core::v3::HeaderMap& wire);

  const std::vector<Header>& all() const { return headers_; }
  // Every value of `name`, which is in lower case.
  std::vector<std::string_view> ValuesOf(std::string_view name) const;
  // nullopt unless there is exactly one.
  std::optional<std::string_view> OnlyValueOf(std::string_view name) const;
  bool Has(std::string_view name) const { return !ValuesOf(name).empty(); }
  // Some name occurs several times.
  bool HasRepeatedName() const;
  void Add(std::string_view name, std::string_view value) { headers_.emplace_back(name, value); }

  // As memory is counted: names, values, and an entry's own size.
  std::size_t bytes() const;

 private:
  std::vector<Header> headers_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_EXCHANGE_HEADER_LIST_H_
