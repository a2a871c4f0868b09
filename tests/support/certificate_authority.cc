#include "tests/support/certificate_authority.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "tests/support/process.h"

namespace idempotency::internal::testing {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

CertificateAuthority::CertificateAuthority() {
  // Replaces the machine's, which adds extensions that the tests do not request.
  std::ofstream(folder_.File("openssl.cnf")) << "[req]\ndistinguished_name = name\n[name]\n";
  root_ = Make("Test authority", {"-addext", "basicConstraints=critical,CA:TRUE", "-keyout",
                                  folder_.File("root.key"), "-out", folder_.File("root.pem")});
}

CertificateAuthority::Identity CertificateAuthority::Issue(const std::string& common_name,
                                                           const std::string& alternative_names,
                                                           const std::string& key_usage) {
  const std::string name = absl::StrCat("issued-", ++made_);
  std::vector<std::string> arguments = {
      "-CA",     folder_.File("root.pem"),    "-CAkey", folder_.File("root.key"),
      "-keyout", folder_.File(name + ".key"), "-out",   folder_.File(name + ".pem")};
  if (!alternative_names.empty()) {
    arguments.insert(arguments.end(), {"-addext", "subjectAltName=" + alternative_names});
  }
  if (!key_usage.empty()) {
    arguments.insert(arguments.end(), {"-addext", "extendedKeyUsage=" + key_usage});
  }
  return Make(common_name, arguments);
}

CertificateAuthority::Identity CertificateAuthority::Make(
    const std::string& common_name, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {OPENSSL_PROGRAM,
                                      "req",
                                      "-x509",
                                      "-config",
                                      folder_.File("openssl.cnf"),
                                      "-newkey",
                                      "ec",
                                      "-pkeyopt",
                                      "ec_paramgen_curve:P-256",
                                      "-nodes",
                                      "-days",
                                      "2",
                                      "-subj",
                                      "/CN=" + common_name};
  command.insert(command.end(), arguments.begin(), arguments.end());
  auto openssl = Process::Start(command);
  const auto exit = openssl.ok() ? (*openssl)->Wait() : openssl.status();
  if (!exit.ok() || exit->code != 0) {
    std::cerr << "openssl: " << (openssl.ok() ? (*openssl)->Stderr() : "did not start") << "\n";
    std::abort();
  }
  Identity made;
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == "-keyout") made.key = ReadFile(arguments[i + 1]);
    if (arguments[i] == "-out") made.certificate = ReadFile(arguments[i + 1]);
  }
  return made;
}

}  // namespace idempotency::internal::testing
