# cmake -DOUTPUT=file.cc -DSOURCE_DIR=dir -DFILES=index.html,console.css,... -P embed.cmake
# Writes the files of the page into one C++ file.
string(REPLACE "," ";" files "${FILES}")
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
set(rows "")
foreach(name IN LISTS files)
  file(READ "${SOURCE_DIR}/${name}" content)
  string(REGEX REPLACE "^.*\\." "" extension "${name}")
  set(path "/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND rows "    {\"${path}\", \"${type_${extension}}\",\n     R\"page(${content})page\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Generated from server/console/page/.
#include \"server/console/page.h\"

namespace idempotency::internal {
namespace {

constexpr PageFile kFiles[] = {
${rows}};

}  // namespace

absl::Span<const PageFile> PageFiles() { return kFiles; }

}  // namespace idempotency::internal
")
