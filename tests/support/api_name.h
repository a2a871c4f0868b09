#ifndef IDEMPOTENCY_TESTS_SUPPORT_API_NAME_H_
#define IDEMPOTENCY_TESTS_SUPPORT_API_NAME_H_

#include <gtest/gtest.h>

#include <string>

#include "tests/support/probe_service.h"

namespace idempotency::testing {

// Names the tests of a suite that runs in both APIs.
inline std::string ApiName(const ::testing::TestParamInfo<Api>& test) {
  return test.param == Api::kSync ? "Sync" : "Callback";
}

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_API_NAME_H_
