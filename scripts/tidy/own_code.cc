// A plugin for clang-tidy: its checks examine only code in files of this repository.
//
// A source file includes a few hundred thousand lines of gRPC's, protobuf's and the standard
// library's headers, and every check walks all of them for findings that are then not reported.
// clangd limits its checks in the same way.
#include <clang-tidy/ClangTidyCheck.h>
#include <clang-tidy/ClangTidyModule.h>
#include <clang-tidy/ClangTidyModuleRegistry.h>
#include <clang/AST/ASTContext.h>
#include <clang/ASTMatchers/ASTMatchFinder.h>
#include <clang/Basic/SourceManager.h>

#include <vector>

namespace idempotency {
namespace {

// The translation unit is matched first, before its content is traversed.
class OwnCode : public clang::tidy::ClangTidyCheck {
 public:
  using ClangTidyCheck::ClangTidyCheck;

  void registerMatchers(clang::ast_matchers::MatchFinder* finder) override {
    finder->addMatcher(clang::ast_matchers::translationUnitDecl().bind("unit"), this);
  }

  void check(const clang::ast_matchers::MatchFinder::MatchResult& result) override {
    const auto* unit = result.Nodes.getNodeAs<clang::TranslationUnitDecl>("unit");
    std::vector<clang::Decl*> own;
    // Not those that are still unread in a precompiled header: none of them is in this repository.
    for (clang::Decl* declaration : unit->noload_decls()) {
      const clang::SourceLocation where = declaration->getLocation();
      if (where.isValid() && !result.SourceManager->isInSystemHeader(where)) {
        own.push_back(declaration);
      }
    }
    result.Context->setTraversalScope(own);
  }
};

class OwnCodeModule : public clang::tidy::ClangTidyModule {
 public:
  void addCheckFactories(clang::tidy::ClangTidyCheckFactories& factories) override {
    factories.registerCheck<OwnCode>("idempotency-own-code");
  }
};

// The registration of the module.
const clang::tidy::ClangTidyModuleRegistry::Add<OwnCodeModule> module("idempotency",
                                                                      "Only files of ours.");

}  // namespace
}  // namespace idempotency
