// Where the tools work: one container, and the one connection that may use it.
//
// The connection makes the container, which ends with it, and then gives up every other right
// (session.narrow): whatever goes through here is asked as `container/<id>`. If the warden or the container
// ends, the next request makes a new one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/base.h"
#include "client/client.h"

namespace sallyport::mcp {

struct PlaceOptions {
  std::string profile, workspace;
  bool is_read_only = false;
  bool has_network = false;
};

// What is asked of the warden. Whoever asks keeps it as long as it may want to cancel.
struct Request {
  std::string method, params;
  std::string content;                            // if not empty: follows as a stream, the further parameter `content`
  std::function<void(Result<Answer>)> on_answer;  // exactly once, from turn()
  std::function<void(const wire::Message&)> on_event;
  std::string id;  // once it is sent
  std::uint32_t stream = 0;
  std::size_t written = 0;  // of the content
  bool is_over = false;
};

class Place {
 public:
  // To a warden that answers, if need be one that is started for it; or to the one that runs, without asking it.
  enum class Warden : std::uint8_t { answering, running };
  using Connect = std::function<Result<std::unique_ptr<Client>>(Warden)>;
  Place(Connect connect, PlaceOptions options) : connect_(std::move(connect)), options_(std::move(options)) {}
  ~Place();  // nobody is answered any more
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  const PlaceOptions& options() const { return options_; }

  // Makes the container now rather than with the first request.
  void open();
  void send(std::shared_ptr<Request> request);
  void cancel(Request& request);  // it is answered all the same

  // What came of a stream so far: TIMEOUT if nothing, empty at its end.
  Result<Bytes> read(std::uint32_t stream);
  void drop(std::uint32_t stream);  // what still comes of it

  // Handles what has arrived, waiting for something at most `wait`. The error, once, of a container that could not
  // be made.
  Status turn(Millis wait = Millis(0));
  int fd() const { return client_ ? client_->fd() : -1; }
  bool has_been_ready() const { return has_been_ready_; }

  // Ends the container and waits for it, but not for ever: what its scan at exit found, a sentence each.
  std::vector<std::string> end(Millis most);

 private:
  void narrow(const Answer& created);
  void fail(const Error& error);
  void start(const std::shared_ptr<Request>& request);
  void write_content(Request& request);  // as much as goes without waiting

  Connect connect_;
  PlaceOptions options_;
  std::unique_ptr<Client> client_;
  std::string container_;
  bool is_ready_ = false, has_been_ready_ = false;
  std::vector<std::shared_ptr<Request>> waiting_;  // until it is ready
  std::vector<std::shared_ptr<Request>> sent_;
  std::optional<Error> failure_;
};

}  // namespace sallyport::mcp
