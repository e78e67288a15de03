# The seccomp programs are made at build time: a launch pays for neither libseccomp nor a compile.
pkg_check_modules(libseccomp REQUIRED IMPORTED_TARGET libseccomp)
add_executable(make_filters ${CMAKE_SOURCE_DIR}/tools/make_filters.cpp)
target_include_directories(make_filters PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(make_filters PRIVATE PkgConfig::libseccomp)
set_target_properties(make_filters PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/generated/filters.cpp
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/generated
  COMMAND make_filters ${CMAKE_BINARY_DIR}/generated/filters.cpp
  DEPENDS make_filters
  VERBATIM)
target_sources(sp_sandbox PRIVATE ${CMAKE_BINARY_DIR}/generated/filters.cpp)
