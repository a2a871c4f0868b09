#include <gmock/gmock.h>

#include "tests/support/subreaper.h"

int main(int argc, char** argv) {
  idempotency::internal::testing::RunUnderSubreaper();
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
