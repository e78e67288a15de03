// The path of every request, on one page:
//
//   UniqueFd -> Peer -> Session -> Frame -> Request -> Permit -> Reply -> sent
//
// Each stage's output is the next stage's only input. All authorisation happens here: nothing else in
// the warden calls a handler.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/base.h"
#include "handlers/method.h"
#include "ipc/ipc.h"
#include "warden/auditor.h"

namespace sallyport::warden {

// A place where requests come in. Which door it was says who is asking.
struct Door {
  std::string name;
  Principal principal = Principal::host();
  std::string plugin_name = {};  // of a container's door, from the registry
  std::vector<std::string> capability_tags = {};
  std::size_t max_connections = 0;
  std::size_t max_in_flight = 0;
  std::size_t max_in_flight_bytes = 256U << 20;
  std::size_t connections = 0;      // now
  std::size_t in_flight = 0;        // now, over all connections
  std::size_t in_flight_bytes = 0;  // of these requests
  bool has_asked = false;           // since somebody looked
  ipc::Account account = {};        // of its connections
};

// Whether there is a method that this name or pattern stands for.
bool has_method(std::string_view pattern);

// All methods by their names, which are ours and few: a letter or two tell most of them apart.
class MethodTable {
 public:
  MethodTable();
  const handlers::Method* find(std::string_view name) const;  // null if there is none

 private:
  static constexpr std::size_t kPlaces = 1024;  // several for each, so that a search ends soon
  static std::size_t place_of(std::string_view name);

  std::array<const handlers::Method*, kPlaces> places_{};  // whose place is taken has the next free one
};

class Pipeline {
 public:
  explicit Pipeline(handlers::Host& host);

  // A connection on a Unix socket: the verifier decides before a byte is read.
  void accept(UniqueFd connection, Door& door, const ipc::PeerVerifier& verify);
  // A connection that was authenticated by other means: the loopback proof, or inheritance (stdio, with
  // its two descriptors).
  void accept_proven(UniqueFd in, UniqueFd out, Door& door, std::string identity);

 private:
  void refuse(UniqueFd connection, const Door& door, const Error& error);
  void open(UniqueFd in, UniqueFd out, Door& door, handlers::RequestContext context);
  Fire serve(std::shared_ptr<ipc::Session> session, Door& door, handlers::RequestContext context);
  Fire answer(const std::shared_ptr<ipc::Session>& session, Door& door, handlers::RequestContext& context,
              wire::Message&& request);
  // What policy does not know about: whether there is such a method and its parameters are right.
  static Status check(const handlers::Method* method, const Door& door, const handlers::RequestContext& context,
                      const wire::Message& request);
  // For what needs more than a yes: a rate is counted, reviewers are asked, and policy has the last word.
  // `agreed_under` becomes the policy under which a human agreed, if one was asked.
  Task<Result<Permit>> grant(const handlers::Method* method, Door& door, const handlers::RequestContext& context,
                             ipc::Call& call, std::string& agreed_under);
  Task<Result<policy::Granted>> review(const handlers::Method& method, policy::Decision& decision,
                                       const handlers::RequestContext& context, ipc::Call& call,
                                       std::string& agreed_under);
  Status check_agreed(const std::string& policy) const;
  Task<ipc::Reply> handle_audited(const handlers::Method& method, const Permit& permit, ipc::Call& call,
                                  handlers::RequestContext& context, const std::string& agreed_under);

  handlers::Host& host_;
  Auditor auditor_;
  MethodTable methods_;
};

}  // namespace sallyport::warden
