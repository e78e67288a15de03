// HTTP for all adapters: one thread with libcurl, one pool of connections, of which a tenant has so many at once; what
// it starts beyond that waits for its own, in order, and holds up nobody else. No redirect is followed, no proxy
// taken from the environment, no answer larger than its limit is kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/base.h"
#include "ipc/loop.h"

namespace sallyport::adapters {

struct HttpRequest {
  std::string tenant = {};  // on whose behalf; empty: the host
  std::string url;
  std::vector<std::string> headers;
  std::string body;  // empty: GET, else POST
  Millis timeout{300'000};
  std::size_t most_bytes = 64U << 20;
};

struct HttpResponse {
  long status = 0;
  std::string body;  // all of it, unless pieces were wanted
  std::optional<Millis> retry_after;
};

class Http {
 public:
  explicit Http(ipc::Loop& loop);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // Both run on the loop, `on_done` exactly once and last. Pieces come as they arrive, of successful answers only.
  using OnPiece = std::function<void(std::string_view)>;
  using OnDone = std::function<void(Result<HttpResponse>)>;
  std::uint64_t start(HttpRequest request, OnPiece on_piece, OnDone on_done);
  // `on_done` gets CANCELLED, unless it was on its way already; with details {"was_asked":false} if nobody can have
  // heard of it yet.
  void cancel(std::uint64_t id);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace sallyport::adapters
