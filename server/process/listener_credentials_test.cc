#include "server/process/listener_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "core/mutex.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Key NewKey() { return Key(EVP_EC_gen("P-256"), &EVP_PKEY_free); }

template <typename Write>
std::string Pem(Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
  write(bio.get());
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);  // NOLINT(google-runtime-int)
  return std::string(data, static_cast<std::size_t>(size));
}

std::string KeyPem(const Key& key) {
  return Pem([&](BIO* bio) {
    PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string LockedKeyPem(const Key& key) {
  return Pem([&](BIO* bio) {
    unsigned char passphrase[] = "passphrase";
    PEM_write_bio_PrivateKey(bio, key.get(), EVP_aes_128_cbc(), passphrase, sizeof(passphrase) - 1,
                             nullptr, nullptr);
  });
}

// Signed by itself, valid until `seconds` from now.
std::string CertificatePem(const Key& key, int seconds) {
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), seconds);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  return Pem([&](BIO* bio) { PEM_write_bio_X509(bio, certificate.get()); });
}

// What is reported, also by the thread that reads the files again.
class Validities final : public Observer {
 public:
  void CertificateLoaded(CertificateUse use, const CertificateValidity& validity) override {
    const MutexLock lock(mutex_);
    validities_[use] = validity;
    changed_.NotifyAll();
  }

  std::map<CertificateUse, CertificateValidity> Get() {
    const MutexLock lock(mutex_);
    return validities_;
  }
  // False if it takes half a minute.
  bool AwaitEndAfter(CertificateUse use, absl::Time time) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    MutexLock lock(mutex_);
    while (validities_[use].not_after <= time) {
      if (!changed_.WaitUntil(lock, deadline)) return false;
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<CertificateUse, CertificateValidity> validities_ ABSL_GUARDED_BY(mutex_);
};

class ListenerCredentialsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.File(name)) << content;
    return folder_.File(name);
  }

  static std::string ErrorOf(const ListenerTlsFiles& files) {
    Observer observer;
    const absl::Status status = ListenerCredentials::Make(files, observer).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  testing::TempFolder folder_;
  Validities validities_;
  const Key key_ = NewKey();
  const std::string good_certificate_ = Write("good.pem", CertificatePem(key_, 3600));
  const std::string good_key_ = Write("good.key", KeyPem(key_));
};

TEST_F(ListenerCredentialsTest, WithoutFilesThereIsNoTls) {
  EXPECT_TRUE(ListenerCredentials::Make({}, validities_).ok());
}

TEST_F(ListenerCredentialsTest, TakesACertificateWithItsKeyAndAnAuthority) {
  EXPECT_TRUE(ListenerCredentials::Make({good_certificate_, good_key_, ""}, validities_).ok());
  EXPECT_TRUE(
      ListenerCredentials::Make({good_certificate_, good_key_, good_certificate_}, validities_)
          .ok());
}

TEST_F(ListenerCredentialsTest, ReportsTheValidityOfTheFirstCertificateToExpire) {
  const absl::Time now = absl::Now();
  const std::string chain =
      Write("chain.pem",
            CertificatePem(key_, 7200) + CertificatePem(key_, 1800) + CertificatePem(key_, 5400));
  ASSERT_TRUE(ListenerCredentials::Make({chain, good_key_, good_certificate_}, validities_).ok());
  std::map<CertificateUse, CertificateValidity> validities = validities_.Get();
  ASSERT_EQ(validities.size(), 2);
  const CertificateValidity& server = validities[CertificateUse::kServer];
  EXPECT_LT(absl::AbsDuration(server.not_after - (now + absl::Minutes(30))), absl::Minutes(1));
  EXPECT_LT(absl::AbsDuration(server.not_before - (now - absl::Hours(1))), absl::Minutes(1));
  const CertificateValidity& authority = validities[CertificateUse::kClientCa];
  EXPECT_LT(absl::AbsDuration(authority.not_after - (now + absl::Hours(1))), absl::Minutes(1));
}

TEST_F(ListenerCredentialsTest, ARenewedCertificateIsReported) {
  const std::string certificate = Write("renewed.pem", CertificatePem(key_, 600));
  const auto made = ListenerCredentials::Make({certificate, good_key_, ""}, validities_);
  ASSERT_TRUE(made.ok());
  Write("renewed.pem", CertificatePem(key_, 7200));
  EXPECT_TRUE(validities_.AwaitEndAfter(CertificateUse::kServer, absl::Now() + absl::Hours(1)));
}

TEST_F(ListenerCredentialsTest, WithoutTlsNoValidityIsReported) {
  ASSERT_TRUE(ListenerCredentials::Make({}, validities_).ok());
  EXPECT_TRUE(validities_.Get().empty());
}

// As in a rotation whose old authority expired before it was removed.
TEST_F(ListenerCredentialsTest, AnAuthorityThatHasExpiredDoesNotCountBesideOneThatHasNot) {
  const std::string good = CertificatePem(key_, 3600);
  const std::string old = CertificatePem(key_, -60);
  for (const std::string& authorities :
       {absl::StrCat(old, good), absl::StrCat(good, old), absl::StrCat(old, old, good)}) {
    const std::string file = Write("authorities.pem", authorities);
    EXPECT_TRUE(ListenerCredentials::Make({good_certificate_, good_key_, file}, validities_).ok());
  }
  const std::string file = Write("authorities.pem", absl::StrCat(old, old));
  EXPECT_THAT(ErrorOf({good_certificate_, good_key_, file}),
              HasSubstr("contains only certificates that have expired"));
}

TEST_F(ListenerCredentialsTest, NamesTheFaultyFile) {
  const std::string missing = folder_.File("missing");
  const std::string empty = Write("empty", "");
  const std::string text = Write("text", "no PEM\n");
  const std::string other_key = Write("other.key", KeyPem(NewKey()));
  const std::string locked_key = Write("locked.key", LockedKeyPem(key_));
  const std::string expired = Write("expired.pem", CertificatePem(key_, -60));
  EXPECT_THAT(ErrorOf({missing, good_key_, ""}),
              HasSubstr("--tls_cert=" + missing + ": cannot be read: No such file"));
  EXPECT_THAT(ErrorOf({folder_.path(), good_key_, ""}), HasSubstr("cannot be read"));
  EXPECT_THAT(ErrorOf({empty, good_key_, ""}), HasSubstr("is empty"));
  EXPECT_THAT(ErrorOf({text, good_key_, ""}), HasSubstr("contains no certificate"));
  EXPECT_THAT(ErrorOf({good_key_, good_key_, ""}), HasSubstr("contains no certificate"));
  EXPECT_THAT(ErrorOf({expired, good_key_, ""}), HasSubstr("has expired"));
  EXPECT_THAT(ErrorOf({good_certificate_, missing, ""}), HasSubstr("--tls_key=" + missing));
  EXPECT_THAT(ErrorOf({good_certificate_, text, ""}), HasSubstr("contains no private key"));
  EXPECT_THAT(ErrorOf({good_certificate_, locked_key, ""}), HasSubstr("without a passphrase"));
  EXPECT_THAT(ErrorOf({good_certificate_, other_key, ""}), HasSubstr("is not the key of"));
  EXPECT_THAT(ErrorOf({good_certificate_, good_key_, missing}),
              HasSubstr("--tls_client_ca=" + missing));
  EXPECT_THAT(ErrorOf({good_certificate_, good_key_, text}), HasSubstr("contains no certificate"));
}

}  // namespace
}  // namespace idempotency::internal
