// The client's side of a pod: connecting, and lending it a person's terminal.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/base.h"
#include "client/client.h"
#include "pod/output.h"
#include "pod/record.h"
#include "pod/terminal.h"

namespace sallyport::pod {

// By the record's address and token. On a Unix socket whoever listens must be the record's own daemon; on TCP
// it must prove the token, which never crosses. UNAUTHENTICATED: somebody else sits there, and learnt nothing.
Result<std::unique_ptr<Client>> connect(const Record& record);

struct AttachOptions {
  Role role = Role::control;
  bool takes = false;  // control, from whoever has it
  char escape = '~';   // '\0': none
  int in = 0, out = 1;
};

struct AttachEnd {
  enum class Why : std::uint8_t { detached, exited, lost } why = Why::lost;
  int exit_code = 0;          // of the agent, once it has exited
  std::uint64_t skipped = 0;  // bytes that this terminal was too slow for
  Role role = Role::view;     // at the end
  bool is_deaf = false;       // the terminal takes nothing any more
};

// Runs until the person detaches, the agent exits, or the connection is lost. A terminal is put into raw mode
// and given back as it was; what goes to it is filtered (see terminal_filter.h). Blocks SIGWINCH and the signals that
// would end it while it runs: SIGTERM, SIGHUP, SIGINT and SIGQUIT detach.
Result<AttachEnd> attach_terminal(Client& client, const AttachOptions& options);

// Copies the pod's remembered output to a descriptor; with `follows` until the agent exits. Filtered if that is
// a terminal. Gives how many bytes were skipped because this end was too slow.
Result<std::uint64_t> copy_log(Client& client, bool follows, int out);

}  // namespace sallyport::pod
