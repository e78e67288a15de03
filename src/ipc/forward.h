// A request passed on to another process, and its answer, events and streams passed back.
#pragma once

#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ipc/call.h"

namespace sallyport::ipc {

// Whether a value stands for a stream: {"$stream":n} and nothing else.
bool is_stream(wire::Value value);

// The call's parameters as JSON for the other side: those named in `without` are left out, what `add` writes
// (members of the object) is put in front. Streams that the request carries flow on to it.
Result<std::string> forward_params(Call& call, Session& to, std::span<const std::string_view> without,
                                   const std::function<void(wire::JsonWriter&)>& add = {});

// What becomes of events that belong to a request.
enum class Events : std::uint8_t {
  refused,
  // They go to the call's own peer; one that does not read loses some, and is told how many with `events.lost`.
  relayed,
  // They go there too, and none is lost: while the peer does not read, the other side is not read either. Only for
  // one that does one request at a time, since nobody else is answered meanwhile.
  waited_for,
};

// Asks at once; co_await waits for the answer. The error inside a message is the other side's. If the call is given up,
// the other side is told. It lives in the coroutine that waits for it, which nobody ends meanwhile.
class Asking {
 public:
  Asking(Call& call, std::shared_ptr<Session> to, std::string_view method, std::string_view params,
         Events events = Events::refused);
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  bool await_ready() const { return answer_.has_value(); }
  void await_suspend(std::coroutine_handle<> waiter) { waiter_ = waiter; }
  Result<wire::Message>& await_resume();  // to be moved from, if it shall outlive this

 private:
  void arrive(Result<wire::Message> answer);

  Call& call_;
  std::optional<Result<wire::Message>> answer_;
  std::coroutine_handle<> waiter_;
};

// Tells a peer how many events it had no room for, before the next; nothing if there were none.
void tell_lost(Session& session, std::string_view id, std::uint64_t count);

// The answer as a reply to the call. Streams in it flow on once the reply is on its way.
Reply forward_result(Call& call, Session& from, const wire::Message& answer);

}  // namespace sallyport::ipc
