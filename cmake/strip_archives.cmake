# Before CPack makes a package: archives without debug information, and with the same bytes each
# time.
file(GLOB_RECURSE archives "${CPACK_TEMPORARY_DIRECTORY}/*.a")
foreach(archive IN LISTS archives)
  execute_process(COMMAND strip --strip-debug --remove-section=.comment --remove-section=.note
    --enable-deterministic-archives -- "${archive}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
