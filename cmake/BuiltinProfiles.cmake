# The built-in profiles are read at build time: who starts a sandbox does not wait for a parser.
sallyport_generator(make_profiles made_profiles.cpp)
target_link_libraries(make_profiles PRIVATE sp_policy)
set_target_properties(make_profiles PROPERTIES MAKES_PROFILES ON)
add_library(sp_profiles STATIC ${CMAKE_BINARY_DIR}/generated/made_profiles.cpp)
target_include_directories(sp_profiles PRIVATE ${CMAKE_SOURCE_DIR}/src)
# Whoever uses the module gets them, but for the program that makes them.
target_link_libraries(sp_policy INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:MAKES_PROFILES>>>:sp_profiles>)
