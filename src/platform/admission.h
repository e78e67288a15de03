// Who has how much under way between the warden and the adapters: no tenant may take the link for itself.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/base.h"

namespace sallyport::platform {

struct Load {
  std::size_t calls = 0, bytes = 0, streams = 0;
};

class Admissions {
 public:
  // Of tenants that have something under way, and of a few that had: most will again.
  using Loads = std::map<std::string, Load, std::less<>>;
  // A call's share, given back when it goes.
  class Share {
   public:
    Share(std::shared_ptr<Loads> loads, Loads::iterator tenant, Load load)
        : loads_(std::move(loads)), tenant_(tenant), load_(load) {}
    Share(Share&&) = default;
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    Share& operator=(Share&&) = delete;
    ~Share();

   private:
    std::shared_ptr<Loads> loads_;
    Loads::iterator tenant_;
    Load load_;
  };
  // RATE_LIMITED (retryable) if the tenant has too much under way already.
  Result<Share> admit(const std::string& tenant, std::size_t bytes, std::size_t streams);

 private:
  std::shared_ptr<Loads> loads_ = std::make_shared<Loads>();
};

}  // namespace sallyport::platform
