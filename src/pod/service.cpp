#include "pod/service.h"

#include <sys/wait.h>

#include <algorithm>

#include "pod/limits.h"
#include "pod/methods.h"

namespace sallyport::pod {

using ipc::Reply;
using wire::JsonWriter;

Fire Service::answer(Daemon& pod, const std::shared_ptr<ipc::Session>& session, wire::Message&& request) {
  ipc::Call call(session, std::move(request));
  Service service(pod, call);
  Reply reply = co_await service.dispatch();
  if (is_reported(call.message().method)) service.report(reply);
  call.answer(std::move(reply));
}

Task<Reply> Service::dispatch() {
  const std::string_view method = call_.message().method;
  const wire::Schema* schema = find_schema(method);
  if (schema == nullptr) co_return Error::make(Code::method_not_found, "a pod has no such method");
  CO_TRY(wire::check_params(*schema, call_.params()));
  const auto named = call_.params().get("pod").as_string();
  if (named && *named != pod_.record_.name) co_return Error::make(Code::not_found, "this is another pod");
  if (method == "pod.attach") co_return attach();
  if (method == "pod.log") co_return log();
  if (method == "pod.resize") co_return resize();
  if (method == "pod.role") co_return role();
  if (method == "pod.signal") co_return signal();
  if (method == "pod.stop") co_return stop();
  if (method == "pod.wait") co_return co_await wait();
  if (method == "pod.reports") co_return co_await reports();
  if (method == "pod.net") co_return net();
  if (method == "pod.link") co_return link();
  if (method == "pod.worker") co_return co_await worker();
  co_return status();
}

Daemon::OutputPtr Service::own_output() const {
  for (const auto& output : pod_.outputs_) {
    if (&output->session() == &call_.session() && output->role() != Role::log) return output;
  }
  return nullptr;
}

Reply Service::done() {
  return call_.result([](JsonWriter& json) { json.begin_object().end_object(); });
}

Reply Service::attach() {
  const wire::Value params = call_.params();
  const std::string wanted(params.get("role").as_string().value_or("control"));
  if (wanted != "control" && wanted != "view") return Error::invalid_param("params.role", "must be control or view");
  if (own_output()) return Error::make(Code::conflict, "this connection is attached already");
  const Role role = wanted == "control" ? Role::control : Role::view;
  std::shared_ptr<ipc::InStream> input;
  if (params.get("input")) {
    auto taken = call_.take_stream(params.get("input"), "params.input");
    if (!taken) return std::move(taken).error();
    input = std::move(*taken);
  }
  const bool takes = params.get("take").as_bool().value_or(false);
  if (role == Role::control && pod_.controller_ && !takes) {
    return Error::make(Code::conflict,
                       "somebody controls this pod already; attach as a viewer (--view), or take control (--take)");
  }
  const auto size = read_size(params.get("size"));
  if (params.get("size") && !size) return Error::invalid_param("params.size", "has no sane rows and columns");
  auto stream = call_.open_stream();
  if (!stream) return std::move(stream).error();

  const Screen& screen = pod_.screen_;
  const auto resume = params.get("resume_offset").as_uint();
  const bool can_resume = resume && *resume >= screen.begin() && *resume <= screen.end();
  const std::uint64_t from = can_resume ? *resume : screen.repaint_from(pod_.startup_.ring_bytes);
  const std::uint64_t repaint = can_resume ? 0 : screen.end() - from;
  const auto output =
      std::make_shared<Output>(screen, call_.share_session(), std::string(call_.message().id), role, *stream, from);
  if (role == Role::control) {
    pod_.set_controller(output);
    if (size) pod_.resize(*size);
  }
  pod_.log_.info("attached", {{"session", call_.session().name()}, {"role", to_string(role)}});
  call_.after_reply([this_pod = &pod_, output, input] {
    this_pod->attach(output);
    if (input) this_pod->read_input(output, input);
  });
  return call_.result([&](JsonWriter& json) {
    json.begin_object().key("output").begin_object().member("$stream", (*stream)->number()).end_object();
    json.member("offset", from).member("repaint", repaint).member("role", to_string(role));
    write_size(json, pod_.size_);
    json.member("state", pod_.record_.wait_status ? "exited" : "running").end_object();
  });
}

Reply Service::log() {
  auto stream = call_.open_stream();
  if (!stream) return std::move(stream).error();
  const Screen& screen = pod_.screen_;
  const std::uint64_t from = screen.repaint_from(pod_.startup_.ring_bytes);
  const bool follows = call_.params().get("follow").as_bool().value_or(false);
  const auto output = std::make_shared<Output>(screen, call_.share_session(), std::string(call_.message().id),
                                               Role::log, *stream, from);
  call_.after_reply([this_pod = &pod_, output, follows] {
    this_pod->attach(output);
    // What is there now, and no more.
    if (!follows && !output->is_over()) {
      output->finish_at(this_pod->screen_.end(), [this_pod, weak = std::weak_ptr<Output>(output)] {
        if (const auto finished = weak.lock()) this_pod->detach_when_sent(finished);
      });
    }
  });
  return call_.result([&](JsonWriter& json) {
    json.begin_object().key("output").begin_object().member("$stream", (*stream)->number()).end_object();
    json.member("offset", from).member("bytes", screen.end() - from).end_object();
  });
}

Reply Service::resize() {
  const auto size = read_size(call_.params().get("size"));
  if (!size) return Error::invalid_param("params.size", "has no sane rows and columns");
  if (pod_.controller_ && pod_.controller_ != own_output()) {
    return Error::make(Code::conflict, "only who controls the pod sets its size");
  }
  pod_.resize(*size);
  return done();
}

Reply Service::role() {
  const auto output = own_output();
  if (!output) return Error::make(Code::conflict, "this connection is not attached");
  const auto wanted = call_.params().get("role").as_string().value_or("");
  if (wanted == "control") {
    pod_.set_controller(output);
  } else if (wanted == "view") {
    if (pod_.controller_ == output) pod_.set_controller(nullptr);
  } else {
    return Error::invalid_param("params.role", "must be control or view");
  }
  return call_.result(
      [&](JsonWriter& json) { json.begin_object().member("role", to_string(output->role())).end_object(); });
}

Reply Service::signal() {
  if (!pod_.running_ || pod_.wait_status_) return Error::make(Code::conflict, "the pod's agent has ended");
  const auto number = static_cast<int>(*call_.params().get("signal").as_int());
  Status sent = pod_.running_->signal(number);
  if (!sent) return std::move(sent).error();
  return done();
}

Reply Service::stop() {
  pod_.stop_agent(Millis(call_.params().get("grace_ms").as_int().value_or(kDefaultGrace.count())));
  return done();
}

Reply Service::status() {
  return call_.result([&](JsonWriter& json) {
    const auto& counters = pod_.sessions_.counters();
    json.begin_object().member("pod", pod_.record_.name);
    json.member("state", pod_.record_.wait_status ? "exited" : pod_.wait_status_ ? "draining" : "running");
    json.member("clients", pod_.outputs_.size()).member("controlled", pod_.controller_ != nullptr);
    write_size(json, pod_.size_);
    json.member("offset", pod_.screen_.end());
    json.member("agent_pid", pod_.running_ ? pod_.running_->pid() : 0).key("protections").raw(pod_.protections_);
    json.member("container", pod_.record_.container);
    if (const egress::Tally* tally = pod_.egress_ ? pod_.egress_->tally(pod_.record_.container) : nullptr) {
      tally->describe(json);
    }
    if (pod_.record_.wait_status) write_exit(json, *pod_.record_.wait_status);
    json.key("counters").begin_object().member("accepted", counters.accepted).member("refused", counters.refused);
    json.member("requests", counters.requests).member("malformed", counters.malformed).end_object().end_object();
  });
}

// Whom the agent may connect to from now on.
Reply Service::net() {
  auto policy = egress::read_policy(call_.params().get("policy"));
  if (!policy) return std::move(policy).error();
  if (pod_.egress_) pod_.egress_->update(pod_.record_.container, std::move(*policy));
  return done();
}

// What is asked on this connection is written down by who holds the voucher, if that is who takes the reports. Nobody
// hides anything by it who could not take the reports themselves.
Reply Service::link() {
  pod_.peers_[&call_.session()].voucher = *call_.params().get("voucher").as_string();
  return done();
}

// What comes through the warden stands in its records already, with who asked it.
void Service::report(const Reply& reply) {
  if (pod_.is_wardens(peer_)) return;
  const wire::Value params = call_.params();
  const bool is_attach = call_.message().method == "pod.attach";
  std::string detail(params.get("role").as_string().value_or(is_attach ? "control" : ""));
  if (params.get("take").as_bool().value_or(false)) detail += " taken";
  if (const auto number = params.get("signal").as_int()) detail = "signal " + std::to_string(*number);
  pod_.report([&](JsonWriter& json) {
    json.member("method", call_.message().method).member("session", call_.session().name());
    json.member("peer_pid", peer_.pid).member("request_id", call_.message().id);
    json.member("code", reply.error() ? to_string(reply.error()->code) : "OK").member("detail", detail);
  });
}

Task<Reply> Service::reports() {
  const bool knows_exit = call_.params().get("knows_exit").as_bool().value_or(false);
  pod_.warden_ = call_.share_session();
  pod_.warden_voucher_ = *call_.params().get("voucher").as_string();
  pod_.reports_taken(call_.params().get("after").as_uint().value_or(0));
  while (pod_.reports_.is_empty() && (knows_exit || !pod_.record_.wait_status)) {
    const auto shot = std::make_shared<ipc::OneShot<bool>>();
    // One warden at a time: the last who asks.
    if (const auto before = std::exchange(pod_.reports_waiter_, shot)) before->resolve(false);
    call_.on_cancel([shot] { shot->resolve(false); });
    const bool goes_on = co_await *shot;
    if (!goes_on) co_return Error::make(Code::cancelled, "nobody waits any more");
  }
  co_return call_.result([&](JsonWriter& json) {
    json.begin_object();
    pod_.reports_.write(json);
    if (pod_.record_.wait_status) {
      json.key("exit").begin_object().member("pod", pod_.record_.name);
      write_exit(json, *pod_.record_.wait_status);
      json.end_object();
    }
    json.end_object();
  });
}

Task<Reply> Service::worker() {
  auto connection = call_.session().copy_connection();
  if (!connection) co_return std::move(connection).error();
  Status started = co_await pod_.start_worker(connection->get());
  if (!started) co_return std::move(started).error();
  // Who asked sends nothing before it has the answer, so nothing of what the worker shall read is read here.
  call_.after_reply([session = call_.share_session()] { session->let_go(); });
  co_return done();
}

Task<Reply> Service::wait() {
  if (!pod_.record_.wait_status) {
    const auto shot = std::make_shared<ipc::OneShot<bool>>();
    pod_.waiters_.push_back(shot);
    call_.on_cancel([shot] { shot->resolve(false); });
    const bool has_ended = co_await *shot;
    if (!has_ended) {
      std::erase(pod_.waiters_, shot);
      co_return Error::make(Code::cancelled, "nobody waits any more");
    }
  }
  // Only who has the status in hand says so: an answer that nobody received loses nothing.
  if (call_.params().get("collect").as_bool().value_or(false)) {
    pod_.collect();
    call_.after_reply([this_pod = &pod_] { this_pod->loop_.post([this_pod] { this_pod->end_if_done(); }); });
  }
  co_return call_.result([&](JsonWriter& json) {
    json.begin_object().member("pod", pod_.record_.name);
    write_exit(json, *pod_.record_.wait_status);
    json.end_object();
  });
}

}  // namespace sallyport::pod
