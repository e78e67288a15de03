# The built-in profiles are read at build time: who starts a sandbox does not wait for a parser.
add_executable(make_profiles ${CMAKE_SOURCE_DIR}/tools/make_profiles.cpp)
target_link_libraries(make_profiles PRIVATE sp_policy)
set_target_properties(make_profiles PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools MAKES_PROFILES ON)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/generated/made_profiles.cpp
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/generated
  COMMAND make_profiles ${CMAKE_BINARY_DIR}/generated/made_profiles.cpp
  DEPENDS make_profiles
  VERBATIM)
add_library(sp_profiles STATIC ${CMAKE_BINARY_DIR}/generated/made_profiles.cpp)
target_include_directories(sp_profiles PRIVATE ${CMAKE_SOURCE_DIR}/src)
# Whoever uses the module gets them, but for the program that makes them.
target_link_libraries(sp_policy INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:MAKES_PROFILES>>>:sp_profiles>)
