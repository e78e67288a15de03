// System calls without errno, for a process that runs on another one's memory: errno is the other one's too, and an
// error that is none would be taken for an answer there. Internal to the module.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <type_traits>

namespace sallyport::sandbox {

#ifdef __x86_64__
constexpr bool kHasRawCalls = true;

// What the kernel answers: below zero is an error number.
template <typename... Arguments>
long raw_call(long number, Arguments... arguments) {
  static_assert(sizeof...(arguments) <= 5);
  const auto word = [](auto value) {
    if constexpr (std::is_pointer_v<decltype(value)>) {
      return reinterpret_cast<long>(value);
    } else {
      return static_cast<long>(value);
    }
  };
  const long words[5] = {word(arguments)...};
  register long fourth asm("r10") = words[3];
  register long fifth asm("r8") = words[4];
  long result = 0;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(words[0]), "S"(words[1]), "d"(words[2]), "r"(fourth), "r"(fifth)
               : "rcx", "r11", "memory");
  return result;
}
#else
constexpr bool kHasRawCalls = false;

// Only used where nobody shares the memory.
template <typename... Arguments>
long raw_call(long number, Arguments... arguments) {
  const long result = ::syscall(number, arguments...);
  return result < 0 ? -errno : result;
}
#endif

}  // namespace sallyport::sandbox
