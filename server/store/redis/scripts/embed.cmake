# cmake -DOUTPUT=file.cc -DSOURCE_DIR=dir -DSCRIPTS=reserve,complete -P embed.cmake
# Writes the scripts into one C++ file.
string(REPLACE "," ";" scripts "${SCRIPTS}")
set(text "")
foreach(script IN LISTS scripts)
  file(READ "${SOURCE_DIR}/${script}.lua" content)
  string(APPEND text "const char k_${script}[] = R\"lua(${content})lua\";\n")
endforeach()
file(WRITE "${OUTPUT}" "// Generated from server/store/redis/scripts/.
#include \"server/store/redis/scripts.h\"

namespace idempotency::internal::redis_script_text {

${text}
}  // namespace idempotency::internal::redis_script_text
")
