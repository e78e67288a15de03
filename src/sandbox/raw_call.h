// System calls without errno, for a process that runs on another one's memory: errno is the other one's too, and would
// be taken there for the answer to a call of its own. Internal to the module.
#pragma once

#include <unistd.h>

#include <array>
#include <cerrno>
#include <type_traits>

namespace sallyport::sandbox {

// What the kernel answered: below zero is an error number. Not a number, so that nobody looks for the error in errno.
struct Answer {
  long value = 0;
  bool is_ok() const { return value >= 0; }
  bool is(int error) const { return value == -error; }
};

#ifdef __x86_64__
inline constexpr bool kHasRawCalls = true;

template <typename... Arguments>
Answer raw_call(long number, Arguments... arguments) {
  static_assert(sizeof...(arguments) <= 6);
  [[maybe_unused]] constexpr auto kWord = [](auto value) {
    if constexpr (std::is_pointer_v<decltype(value)> || std::is_null_pointer_v<decltype(value)>) {
      return reinterpret_cast<long>(value);
    } else {
      return static_cast<long>(value);
    }
  };
  const std::array<long, 6> words = {kWord(arguments)...};
  register long fourth asm("r10") = words[3];
  register long fifth asm("r8") = words[4];
  register long sixth asm("r9") = words[5];
  Answer answer;
  asm volatile("syscall"
               : "=a"(answer.value)
               : "a"(number), "D"(words[0]), "S"(words[1]), "d"(words[2]), "r"(fourth), "r"(fifth), "r"(sixth)
               : "rcx", "r11", "memory");
  return answer;
}
#else
inline constexpr bool kHasRawCalls = false;  // and so nobody shares memory

template <typename... Arguments>
Answer raw_call(long number, Arguments... arguments) {
  const long result = ::syscall(number, arguments...);
  return {result < 0 ? -long{errno} : result};
}
#endif

}  // namespace sallyport::sandbox
