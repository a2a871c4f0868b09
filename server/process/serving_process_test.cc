#include "server/process/serving_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

class ServingProcessTest : public ::testing::Test {
 protected:
  void AddProcess(const std::string& pid, const std::vector<std::string>& arguments) {
    const std::filesystem::path process = folder_.File(pid);
    std::filesystem::create_directory(process);
    std::filesystem::create_symlink("/srv/data", process / "cwd");
    std::ofstream file(process / "cmdline", std::ios::binary);
    for (const std::string& argument : arguments) file << argument << '\0';
  }
  std::string ErrorOf() const {
    return std::string(FindServingProcess(folder_.path()).status().message());
  }

  testing::TempFolder folder_;
};

TEST_F(ServingProcessTest, TakesTheFlagsOfTheOneThatServes) {
  AddProcess("1", {"/sbin/init"});
  AddProcess(
      "7", {"/usr/bin/idempotencyd", "serve", "--listen=0.0.0.0:7500", "--store=sqlite:records.db",
            "--tls_cert=server.pem", "--tls_key=/etc/server.key", "--config=c.textproto"});
  AddProcess("9", {"idempotencyd", "health"});
  AddProcess("self", {"idempotencyd", "serve"});
  const auto found = FindServingProcess(folder_.path());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->listen.ToString(), "0.0.0.0:7500");
  EXPECT_EQ(found->tls.certificate, "/srv/data/server.pem");
  EXPECT_EQ(found->tls.key, "/etc/server.key");
  EXPECT_EQ(found->tls.client_ca, "");
  EXPECT_EQ(found->config, "/srv/data/c.textproto");
}

TEST_F(ServingProcessTest, ReportsTheRemedyWithoutOne) {
  EXPECT_THAT(ErrorOf(),
              HasSubstr("no idempotencyd serves here; set the server's address with --address"));
  AddProcess("7", {"idempotencyd", "serve", "--store=sqlite:a", "--listen=127.0.0.1:0"});
  EXPECT_THAT(ErrorOf(), HasSubstr("a port that the system chose; set"));
  AddProcess("8", {"idempotencyd", "serve", "--store=sqlite:b"});
  EXPECT_THAT(ErrorOf(), HasSubstr("several idempotencyd run here; set"));
}

TEST_F(ServingProcessTest, DoesNotGuessAtFlagsOfAnotherVersion) {
  AddProcess("7", {"idempotencyd", "serve", "--store=sqlite:a", "--of_the_future=1"});
  EXPECT_THAT(ErrorOf(), HasSubstr("flags that this build does not support; set"));
}

}  // namespace
}  // namespace idempotency::internal
