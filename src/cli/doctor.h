// What `sallyport doctor` looks at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sallyport::cli {

enum class Health : std::uint8_t { good, weak, bad };

// One row: what was found, what it is for, and, unless all is well, how to mend it.
struct Finding {
  std::string name;
  Health health;
  std::string found, meaning, advice;
};

// What the kernel offers and what it lets this user have.
std::vector<Finding> check_machine();

}  // namespace sallyport::cli
