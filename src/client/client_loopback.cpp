// Connecting to a loopback door. By itself: a program that has a Unix door is linked without any of it.
#include <algorithm>

#include "base/random.h"
#include "client/client.h"
#include "os/files.h"
#include "os/process.h"
#include "os/sockets.h"

namespace sallyport {

Result<std::unique_ptr<Client>> Client::connect_loopback(const LoopbackAddress& address) {
  TRY(UniqueFd connection, os::connect_loopback(address.binding.address));
  return prove(std::move(connection), address);
}

Result<std::unique_ptr<Client>> Client::prove(UniqueFd connection, const LoopbackAddress& address) {
  std::unique_ptr<Client> client(new Client(std::move(connection), UniqueFd(), wire::Side::connecting));
  wire::Nonce nonce;
  fill_random(nonce);
  wire::HandshakeClient handshake(address.token, address.binding, nonce);
  handshake.start(client->unsent_);
  TRY(client->send_unsent());
  const SteadyTime until = std::chrono::steady_clock::now() + wire::kHandshakeTimeout;
  for (;;) {
    TRY(const auto frame, client->reader_.next());
    if (frame) {
      TRY(handshake.receive(*frame, client->unsent_));
      TRY(client->send_unsent());
      return client;
    }
    TRY(const bool came, client->receive(until));
    if (!came) return Error::make(Code::timeout, "no answer to the handshake from " + address.binding.address);
  }
}

Result<LoopbackAddress> read_loopback_file(const std::string& path) {
  TRY(const std::string text, os::read_private_file(path, 4096));
  wire::Decoder decoder;
  TRY(const wire::Document document, decoder.parse(text));
  const wire::Value root = document.root();
  LoopbackAddress address;
  const auto token = from_hex(root.get("token").as_string().value_or(""));
  if (root.get("protocol").as_int() != wire::kHandshakeVersion || !token || token->size() != wire::kTokenBytes) {
    return Error::make(Code::protocol_error, path + " is not a loopback door of this version");
  }
  std::copy(token->begin(), token->end(), address.token.begin());
  address.binding = {std::string(root.get("address").as_string().value_or("")),
                     std::string(root.get("boot_id").as_string().value_or("")), root.get("pid").as_uint().value_or(0),
                     root.get("start_time").as_uint().value_or(0)};
  const auto boot = os::boot_id();
  if (!boot || *boot != address.binding.boot_id ||
      !os::is_process_alive(static_cast<pid_t>(address.binding.pid), address.binding.start_time)) {
    return Error::make(Code::unavailable, "the daemon that wrote " + path + " is not running any more");
  }
  return address;
}

}  // namespace sallyport
