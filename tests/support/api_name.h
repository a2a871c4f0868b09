#ifndef IDEMPOTENCY_TESTS_SUPPORT_API_NAME_H_
#define IDEMPOTENCY_TESTS_SUPPORT_API_NAME_H_

#include <gtest/gtest.h>

#include <string>

#include "tests/support/probe_service.h"

namespace idempotency::internal::testing {

inline std::string NameOf(Api api) { return api == Api::kSync ? "Sync" : "Callback"; }

// Names the tests of a suite that runs in both APIs, or over any other parameter with a NameOf.
struct ParameterName {
  template <typename Parameter>
  std::string operator()(const ::testing::TestParamInfo<Parameter>& test) const {
    return NameOf(test.param);
  }
};
inline constexpr ParameterName ApiName;

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_API_NAME_H_
