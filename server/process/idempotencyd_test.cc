// The binary as a process: its output and its exit.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

#include "server/process/health_probe.h"
#include "server/sealing/key_ring_file.h"
#include "tests/support/certificate_authority.h"
#include "tests/support/held_port.h"
#include "tests/support/process.h"
#include "tests/support/programs.h"
#include "tests/support/refusing_listener.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::idempotency::internal::testing::HeldPort;
using ::idempotency::internal::testing::Process;
using ::idempotency::internal::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// The exit of a run that ends by itself.
struct Ended {
  int code = -1;
  std::string out;
  std::string err;
};

class IdempotencydTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Process> Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "idempotencyd");
    auto process = Process::Start(std::move(arguments));
    EXPECT_TRUE(process.ok()) << process.status();
    return process.ok() ? *std::move(process) : nullptr;
  }

  static Ended Run(std::vector<std::string> arguments) {
    const std::unique_ptr<Process> process = Start(std::move(arguments));
    const auto exit = process->Wait();
    EXPECT_TRUE(exit.ok()) << exit.status();
    Ended ended;
    if (exit.ok()) ended.code = exit->code.value_or(-1);
    ended.out = process->Stdout();
    ended.err = process->Stderr();
    return ended;
  }

  // Starts `serve` on free ports and returns its ready line.
  std::unique_ptr<Process> Serve(std::string* ready, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"serve", "--listen=127.0.0.1:0", Store()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto process = Start(std::move(arguments));
    const auto line = process->WaitForLine("idempotencyd: serving on ");
    EXPECT_TRUE(line.ok()) << line.status();
    if (line.ok()) *ready = *line;
    return process;
  }

  static int EndWith(Process& process, int signal) {
    process.Signal(signal);
    const auto exit = process.Wait();
    EXPECT_TRUE(exit.ok()) << exit.status();
    return exit.ok() ? exit->code.value_or(-1) : -1;
  }

  std::string Store() const { return absl::StrCat("--store=sqlite:", folder_.File("records.db")); }

  void Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.File(name)) << content;
  }

  TempFolder folder_;
  ::idempotency::internal::testing::CertificateAuthority authority_;
};

// "127.0.0.1:PORT" from the ready line.
std::string AddressIn(const std::string& ready) {
  const std::vector<std::string> words = absl::StrSplit(ready, absl::ByAnyChar(" ,"));
  return words.size() > 3 ? words[3] : "";
}

TEST_F(IdempotencydTest, HelpAndVersionGoToStdout) {
  const Ended help = Run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("idempotencyd serve --store="));
  const Ended version = Run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, MatchesRegex("idempotencyd [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(IdempotencydTest, SealsWithAKeyRing) {
  const std::string ring = folder_.File("keyring");
  ASSERT_TRUE(GenerateKey(ring, {}, absl::Now()).ok());
  const v1::ReserveRequest reserve = testing::SomeReserve("order-1");
  // Sealed by one process, opened by the next; not run without the ring.
  for (const std::string& run : {"seals", "opens", "has no ring"}) {
    std::string ready;
    std::vector<std::string> flags = {"--metrics="};
    if (run != "has no ring") flags.push_back("--keyring=" + ring);
    const auto process = Serve(&ready, flags);
    const testing::ServiceClient client(AddressIn(ready));
    const auto verdict = client.Call(reserve);
    if (run == "seals") {
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      const std::string& token = verdict->reserved().reservation_token();
      ASSERT_TRUE(client.Call(testing::SomeComplete("order-1", token, "canary-5f3759df")).ok());
    } else if (run == "opens") {
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->replay().reply().body(), "canary-5f3759df");
    } else {
      EXPECT_FALSE(verdict.ok()) << verdict->DebugString();
    }
    EXPECT_EQ(EndWith(*process, SIGTERM), 0);
    std::ifstream file(folder_.File("records.db"), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(content, HasSubstr("order-1"));
    EXPECT_THAT(content, ::testing::Not(HasSubstr("canary-5f3759df")));
  }
}

TEST_F(IdempotencydTest, MistakesExitWith2AndPrintTheRemedy) {
  const std::string missing = folder_.File("missing.pem");
  Write("wrong", "\nrules { identity: \"a\" namespaces: \"n\" permissions: READ }");
  Write("empty", "");
  Write("good",
        "identities { name: \"a\" local: true }\n"
        "rules { identity: \"a\" namespaces: \"n\" permissions: READ }");
  const std::string wrong = folder_.File("wrong");
  const std::string empty = folder_.File("empty");
  const std::string good = folder_.File("good");
  const struct {
    std::vector<std::string> arguments;
    std::string message;
  } cases[] = {
      {{}, "no command is given"},
      {{"serve", Store(), "--nonsense=1"}, "there is no flag --nonsense"},
      {{"serve", "--store=mysql://db"}, "sqlite:PATH or postgresql://"},
      {{"serve", "--store=sqlite:/no/such/folder/r.db"}, "/no/such/folder"},
      {{"serve", Store(), "--tls_cert=" + missing, "--tls_key=" + missing}, "cannot be read"},
      {{"serve", Store(), "--listen=0.0.0.0:0"}, "--config must state who may do what"},
      {{"serve", Store(), "--config=" + missing}, missing + ": cannot be read"},
      {{"serve", Store(), "--config=" + wrong}, wrong + ":2: identity must be the name of one"},
      {{"serve", Store(), "--config=" + empty}, empty + ":1: there are no rules"},
      {{"check-config", "--config=" + wrong}, wrong + ":2: identity must be the name of one"},
      {{"serve", Store(), "--accept_unsealed"}, "--accept_unsealed needs --keyring"},
      {{"serve", Store(), "--keyring=" + missing}, "missing.pem: cannot be read"},
      // TEST-NET-1: an address of no machine.
      {{"serve", Store(), "--listen=192.0.2.1:0", "--metrics=", "--allow_plaintext",
        "--config=" + good},
       "cannot listen on 192.0.2.1:0"},
      {{"serve", Store(), "--listen=127.0.0.1:0", "--metrics=192.0.2.1:0"},
       "cannot listen on 192.0.2.1:0 for metrics"},
  };
  for (const auto& mistake : cases) {
    const Ended ended = Run(mistake.arguments);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_EQ(ended.out, "");
    EXPECT_THAT(ended.err, HasSubstr(mistake.message));
  }
}

TEST_F(IdempotencydTest, ChecksAndPrintsAConfiguration) {
  const std::string digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
  Write("config", "identities { name: \"a\" tokens { sha256: \"" + digest +
                      "\" } }\n"
                      "rules { identity: \"a\" namespaces: \"*\" permissions: READ }");
  const std::string config = "--config=" + folder_.File("config");
  const Ended checked = Run({"check-config", config});
  EXPECT_EQ(checked.code, 0);
  EXPECT_EQ(checked.out, "");
  EXPECT_THAT(checked.err, HasSubstr("valid"));
  const Ended printed = Run({"check-config", config, "--print_config"});
  EXPECT_EQ(printed.code, 0);
  EXPECT_THAT(printed.out, HasSubstr("name: \"a\""));
  EXPECT_THAT(printed.out, ::testing::Not(HasSubstr(digest)));
}

TEST_F(IdempotencydTest, NotesOfAConfigurationAreNoFaults) {
  Write("config",
        "identities { name: \"a\" local: true }\n"
        "rules { identity: \"a\" namespaces: \"payment\" permissions: READ }\n"
        "namespaces { name: \"payments\" }");
  const Ended checked = Run({"check-config", "--config=" + folder_.File("config")});
  EXPECT_EQ(checked.code, 0);
  EXPECT_EQ(checked.out, "");
  EXPECT_THAT(checked.err, HasSubstr(": note: namespace \"payments\" is in no rule"));
  EXPECT_THAT(checked.err, HasSubstr("config: valid"));
}

TEST_F(IdempotencydTest, ServesUntilSigterm) {
  std::string ready;
  const auto process = Serve(&ready, {"--metrics=127.0.0.1:0"});
  EXPECT_THAT(ready, MatchesRegex("idempotencyd: serving on 127\\.0\\.0\\.1:[1-9][0-9]*, "
                                  "metrics on 127\\.0\\.0\\.1:[1-9][0-9]*"));
  EXPECT_EQ(Run({"health", "--address=" + AddressIn(ready)}).code, 0);
  EXPECT_EQ(Run({"health", "--service=idempotency.v1.IdempotencyService",
                 "--address=" + AddressIn(ready)})
                .code,
            0);
  EXPECT_EQ(EndWith(*process, SIGTERM), 0) << process->Stderr();
  EXPECT_EQ(Run({"health", "--address=" + AddressIn(ready)}).code, 1);
}

// As a terminal that is stopped, or a collector that hangs.
TEST_F(IdempotencydTest, AReaderOfTheLogThatDoesNotReadStopsNothing) {
  std::array<int, 2> log{};
  ASSERT_EQ(pipe2(log.data(), O_CLOEXEC | O_NONBLOCK), 0);
  while (write(log[1], "x", 1) == 1) {
  }
  const auto program = testing::ProgramPath("idempotencyd");
  ASSERT_TRUE(program.ok()) << program.status();
  auto process = Process::Start(
      {"/bin/sh", "-c", absl::StrCat("exec \"$0\" \"$@\" 2>/proc/", getpid(), "/fd/", log[1]),
       *program, "serve", "--listen=127.0.0.1:0", "--metrics=", Store()});
  ASSERT_TRUE(process.ok()) << process.status();
  const auto ready = (*process)->WaitForLine("idempotencyd: serving on ");
  ASSERT_TRUE(ready.ok()) << ready.status();
  const testing::ServiceClient client(AddressIn(*ready));
  const auto verdict = client.Call(testing::SomeReserve("order-1"));
  EXPECT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(EndWith(**process, SIGTERM), 0);
  close(log[0]);
  close(log[1]);
}

TEST_F(IdempotencydTest, SigintEndsItAndSighupDoesNot) {
  std::string ready;
  const auto process = Serve(&ready, {"--metrics="});
  EXPECT_THAT(ready, MatchesRegex("idempotencyd: serving on 127\\.0\\.0\\.1:[1-9][0-9]*"));
  process->Signal(SIGHUP);
  EXPECT_EQ(Run({"health", "--address=" + AddressIn(ready)}).code, 0);
  EXPECT_EQ(EndWith(*process, SIGINT), 0) << process->Stderr();
}

TEST_F(IdempotencydTest, ListensOnAUnixSocket) {
  const std::string address = "unix:" + folder_.File("d.sock");
  const auto process = Start({"serve", Store(), "--metrics=", "--listen=" + address});
  const auto line = process->WaitForLine("idempotencyd: serving on ");
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(*line, "idempotencyd: serving on " + address);
  EXPECT_EQ(Run({"health", "--address=" + address}).code, 0);
  EXPECT_EQ(EndWith(*process, SIGTERM), 0);
}

TEST_F(IdempotencydTest, HealthWaitsForAServerThatStarts) {
  const HeldPort port;
  const std::string address = "--address=" + port.address();
  const Ended refused = Run({"health", address, "--wait=300ms"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("did not report that it serves"));

  const auto health = Start({"health", address, "--wait=60s"});
  const auto process = Start({"serve", Store(), "--metrics=", "--listen=" + port.address()});
  const auto exit = health->Wait();
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_EQ(exit->code, 0) << health->Stderr();
  EXPECT_EQ(health->Stdout(), "SERVING\n");
  EXPECT_EQ(EndWith(*process, SIGTERM), 0) << process->Stderr();
}

TEST_F(IdempotencydTest, HealthIsCheckedOverTls) {
  const auto server = authority_.Issue("idempotencyd", "DNS:idempotencyd.example");
  Write("server.pem", server.certificate);
  Write("server.key", server.key);
  Write("ca.pem", authority_.root());
  const std::vector<std::string> tls = {"--metrics=", "--tls_cert=" + folder_.File("server.pem"),
                                        "--tls_key=" + folder_.File("server.key")};
  std::string ready;
  const auto process = Serve(&ready, tls);
  const std::string address = "--address=" + AddressIn(ready);
  const Ended plaintext = Run({"health", address});
  EXPECT_EQ(plaintext.code, 1);
  EXPECT_THAT(plaintext.err, HasSubstr("if it uses TLS, set --tls_ca"));
  EXPECT_EQ(Run({"health", address, "--tls"}).code, 0);
  const std::string ca = "--tls_ca=" + folder_.File("ca.pem");
  EXPECT_EQ(Run({"health", address, ca, "--tls_name=idempotencyd.example"}).code, 0);
  EXPECT_EQ(Run({"health", address, ca, "--tls_name=another.example"}).code, 1);
  EXPECT_THAT(Run({"health", address, "--tls_ca=" + folder_.File("missing")}).err,
              HasSubstr("missing: cannot be read"));
  EXPECT_THAT(Run({"health", address, "--tls_ca=" + folder_.File("")}).err,
              HasSubstr("cannot be read: Is a directory"));
}

TEST_F(IdempotencydTest, HealthFindsAServerWithTlsAsSoonAsItServes) {
  const auto server = authority_.Issue("idempotencyd");
  Write("server.pem", server.certificate);
  Write("server.key", server.key);
  const HeldPort port;
  // As users have it.
  unsetenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS");
  const auto health = Start({"health", "--address=" + port.address(), "--tls", "--wait=60s"});
  ASSERT_TRUE(testing::RefusingListener(port.number()).AwaitAttempts(1));
  const auto process = Start({"serve", Store(), "--metrics=", "--listen=" + port.address(),
                              "--tls_cert=" + folder_.File("server.pem"),
                              "--tls_key=" + folder_.File("server.key")});
  ASSERT_TRUE(process->WaitForLine("idempotencyd: serving on ").ok()) << process->Stderr();
  const absl::Time serving = absl::Now();
  const auto exit = health->Wait();
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_EQ(exit->code, 0) << health->Stderr();
  // A handshake of which each step waits for gRPC's timer takes 10 s or longer.
  EXPECT_LT(absl::Now() - serving, absl::Seconds(5));
}

TEST_F(IdempotencydTest, HealthIsCheckedOverMutualTls) {
  const auto server = authority_.Issue("idempotencyd");
  const auto client = authority_.Issue("health");
  Write("server.pem", server.certificate);
  Write("server.key", server.key);
  Write("client.pem", client.certificate);
  Write("client.key", client.key);
  Write("ca.pem", authority_.root());
  std::string ready;
  const auto process = Serve(&ready, {"--metrics=", "--tls_cert=" + folder_.File("server.pem"),
                                      "--tls_key=" + folder_.File("server.key"),
                                      "--tls_client_ca=" + folder_.File("ca.pem")});
  const std::string address = "--address=" + AddressIn(ready);
  const Ended without = Run({"health", address, "--tls"});
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.err, HasSubstr("if it uses mutual TLS, set --tls_cert and --tls_key"));
  EXPECT_EQ(Run({"health", address, "--tls_cert=" + folder_.File("client.pem"),
                 "--tls_key=" + folder_.File("client.key")})
                .code,
            0);
}

// The certificate that many authorities issue for a server is refused as a client's.
TEST_F(IdempotencydTest, HealthNamesTheCertificateThatAServerRefuses) {
  const auto server = authority_.Issue("idempotencyd", "", "serverAuth");
  Write("server.pem", server.certificate);
  Write("server.key", server.key);
  Write("ca.pem", authority_.root());
  const std::string certificate = "--tls_cert=" + folder_.File("server.pem");
  const std::string key = "--tls_key=" + folder_.File("server.key");
  std::string ready;
  const auto process =
      Serve(&ready, {"--metrics=", certificate, key, "--tls_client_ca=" + folder_.File("ca.pem")});
  const Ended chosen = Run({"health", "--address=" + AddressIn(ready), certificate, key});
  EXPECT_EQ(chosen.code, 1);
  EXPECT_THAT(chosen.err, HasSubstr("if it refuses the certificate " + folder_.File("server.pem")));
  EXPECT_THAT(chosen.err, HasSubstr("must include clientAuth; or there are too many connections"));

  // Without flags, with the command line of this daemon alone.
  const std::filesystem::path proc = folder_.File("proc");
  std::filesystem::create_directories(proc / "7");
  std::ofstream command_line(proc / "7" / "cmdline", std::ios::binary);
  for (const std::string& argument :
       {std::string("idempotencyd"), std::string("serve"), "--listen=" + AddressIn(ready), Store(),
        certificate, key, "--tls_client_ca=" + folder_.File("ca.pem")}) {
    command_line << argument << '\0';
  }
  command_line.close();
  EXPECT_THAT(ProbeHealth(HealthOptions(), proc.string()).ToString(),
              AllOf(HasSubstr("if it refuses its own certificate " + folder_.File("server.pem")),
                    HasSubstr("set --tls_cert and --tls_key to a certificate for the probe")));
}

TEST_F(IdempotencydTest, TwoOfThemDoNotShareAPort) {
  std::string ready;
  const auto process = Serve(&ready, {"--metrics="});
  const Ended second = Run({"serve", "--metrics=", "--listen=" + AddressIn(ready),
                            absl::StrCat("--store=sqlite:", folder_.File("other.db"))});
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err, HasSubstr("cannot listen on " + AddressIn(ready)));
}

}  // namespace
}  // namespace idempotency::internal
