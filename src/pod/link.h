// The warden's connection to a pod, on behalf of one session that asked.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "base/base.h"
#include "ipc/ipc.h"
#include "pod/record.h"

namespace sallyport::pod {

// Connects without blocking the loop: on a Unix socket whoever listens must be the daemon of the record, on
// loopback TCP it must prove that it holds the token.
Task<Result<std::shared_ptr<ipc::Session>>> connect_session(ipc::Sessions& sessions, Record record);

// First of all on a connection: what is asked there is written down by the warden.
void vouch(ipc::Session& pod, const std::string& voucher);

// Passes requests to the pod, and its streams and events to who asked: in order, at the pace of the slower.
class Link : public std::enable_shared_from_this<Link> {
 public:
  explicit Link(std::shared_ptr<ipc::Session> pod);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  bool is_open() const { return !pod_->is_closed(); }
  void close() { pod_->close(); }
  // A request without streams; its answer, as it came. Ends when the call does.
  Task<Result<wire::Message>> ask(ipc::Call* call, std::string_view method, std::string params);
  // The same as a reply.
  Task<ipc::Reply> pass(ipc::Call& call);
  // One that answers with an output stream, and may name an input stream.
  Task<ipc::Reply> pass_streams(ipc::Call& call);

 private:
  // Output of one attach or log on its way.
  struct Relay {
    std::shared_ptr<ipc::Session> to;
    std::string id;  // of the request there
    std::shared_ptr<ipc::InStream> in;
    std::shared_ptr<ipc::OutStream> out;
    struct Notice {
      std::string method, params;
      std::shared_ptr<ipc::InStream> next;  // of a gap: what follows it
      std::uint64_t offset = 0, skipped = 0, repaint = 0;
      bool is_interrupted = false;
    };
    std::deque<Notice> notices;  // come after what `in` still holds
    std::shared_ptr<ipc::OneShot<bool>> has_notice = std::make_shared<ipc::OneShot<bool>>();
    bool is_endless = false;
    std::uint64_t position = 0, end = 0;  // in the pod's output; where one that is not endless ends
  };
  Fire listen();
  void take_event(const wire::Message& event);
  static void send_on(const std::shared_ptr<Relay>& flow, std::shared_ptr<ipc::OutStream> out);
  static Fire relay(std::shared_ptr<Relay> flow);

  std::shared_ptr<ipc::Session> pod_;
  std::map<std::string, std::weak_ptr<Relay>, std::less<>> relays_;  // by the id of our request
};

}  // namespace sallyport::pod
