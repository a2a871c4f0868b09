#include "client/connection/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/client/channel_credentials.h"
#include "grpc_idempotency/limits.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

class TokenFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_.File(name), std::ios::binary) << content;
    return folder_.File(name);
  }

  testing::TempFolder folder_;
  ManualClock clock_;
};

TEST_F(TokenFileTest, WhiteSpaceAroundATokenIsNotPartOfIt) {
  EXPECT_EQ(TokenFile(Write("token", " a.b-c \r\n"), clock_).Token().value_or(""), "a.b-c");
}

TEST_F(TokenFileTest, IsReadAnewAfterASecond) {
  TokenFile token(Write("token", "first"), clock_);
  Write("token", "second");
  clock_.Advance(absl::Milliseconds(999));
  EXPECT_EQ(token.Token().value_or(""), "first");
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(token.Token().value_or(""), "second");
}

TEST_F(TokenFileTest, TheLastTokenStaysWhileTheFileCannotBeUsed) {
  const std::string path = Write("token", "first");
  TokenFile token(path, clock_);
  for (const std::string& content :
       {std::string(), std::string(" "), std::string("a b"), std::string("a\nb"),
        std::string("a\0b", 3), std::string(limits::kMaxTokenBytes + 1, 'x')}) {
    Write("token", content);
    clock_.Advance(absl::Seconds(2));
    EXPECT_EQ(token.Token().value_or(""), "first") << content.size();
  }
  std::filesystem::remove(path);
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(token.Token().value_or(""), "first");
  Write("token", "second");
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(token.Token().value_or(""), "second");
}

TEST_F(TokenFileTest, AFileThatWasNeverReadIsReadForEachCall) {
  TokenFile token(folder_.File("token"), clock_);
  EXPECT_EQ(token.Token().status().code(), absl::StatusCode::kUnavailable);
  Write("token", "first");
  EXPECT_EQ(token.Token().value_or(""), "first");
}

TEST_F(TokenFileTest, CredentialsNameTheFileThatIsMissing) {
  const auto refusal = [](const IdempotencydCredentialFiles& files) {
    return std::string(IdempotencydChannelCredentials(files).status().message());
  };
  const std::string missing = folder_.File("missing");
  const std::string file = Write("file", "content");
  EXPECT_THAT(refusal({missing, "", "", ""}), HasSubstr("ca: " + missing));
  EXPECT_THAT(refusal({file, file, missing, ""}), HasSubstr("key: " + missing));
  EXPECT_THAT(refusal({file, missing, file, ""}), HasSubstr("certificate: " + missing));
  EXPECT_THAT(refusal({"", "", "", missing}), HasSubstr("token: " + missing));
  EXPECT_THAT(refusal({"", "", "", Write("token", "a b")}), HasSubstr("token: "));
  EXPECT_THAT(refusal({file, file, "", ""}), HasSubstr("must be set together"));
  EXPECT_TRUE(IdempotencydChannelCredentials({}).ok());
}

}  // namespace
}  // namespace idempotency::internal
