// The profiles that are always there, in the same language as everybody else's. They are read when the project is
// built: see made_profiles.h.
#pragma once

#include <string_view>

namespace sallyport::policy {

inline constexpr const char* kBuiltinSource = "built in";  // what stands for their file's name

struct BuiltinProfile {
  std::string_view name, text;
};

inline constexpr BuiltinProfile kBuiltinProfiles[] = {
    {"default", R"toml(
# The workspace is writable; system programs run; no network; home is invisible. It may raise every signal; those
# that carry data are reviewed by the deputy and by a human.
[profile.default]
fs.read  = ["/usr", "/etc", "/opt"]
fs.write = ["${workspace}"]
fs.deny  = ["/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/ssh/ssh_host_*_key", "/etc/ssl/private", "/etc/krb5.keytab"]
exec     = ["/usr/**", "/opt/**", "${workspace}/**"]
methods  = ["test.*", "warden.hello", "fs.*", "env.get", "signal.raise"]
signals  = ["message_ready", "progress_ready", "context_reset", "refresh_groups", "schedule_task", "create_periodic_agent", "register_group", "deploy"]
review   = { "schedule_task" = ["deputy", "human"], "create_periodic_agent" = ["deputy", "human"], "register_group" = ["deputy", "human"], "deploy" = ["deputy", "human"] }
rates    = { "schedule_task" = "30/h", "create_periodic_agent" = "10/h", "register_group" = "10/h", "deploy" = "10/h" }
env      = { LANG = "C.UTF-8" }
env_pass = ["TERM", "COLORTERM", "NO_COLOR", "TZ"]
)toml"},
    {"mcp", R"toml(
# The same for `sallyport mcp`, whose tools may also run commands in their own container.
[profile.mcp]
fs.read  = ["/usr", "/etc", "/opt"]
fs.write = ["${workspace}"]
fs.deny  = ["/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/ssh/ssh_host_*_key", "/etc/ssl/private", "/etc/krb5.keytab"]
exec     = ["/usr/**", "/opt/**", "${workspace}/**"]
methods  = ["test.*", "warden.hello", "fs.*", "env.get", "container.exec"]
env      = { LANG = "C.UTF-8" }
env_pass = ["TERM", "COLORTERM", "NO_COLOR", "TZ"]
)toml"},
    {"read-only", R"toml(
# As default, without a place to write but /tmp and home, which are private and vanish.
[profile.read-only]
fs.read  = ["/usr", "/etc", "/opt", "${workspace}"]
fs.deny  = ["/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/ssh/ssh_host_*_key", "/etc/ssl/private", "/etc/krb5.keytab"]
exec     = ["/usr/**", "/opt/**", "${workspace}/**"]
methods  = ["test.*", "warden.hello", "fs.read", "fs.glob", "fs.grep", "fs.stat", "fs.list", "env.get"]
env      = { LANG = "C.UTF-8" }
env_pass = ["TERM", "COLORTERM", "NO_COLOR", "TZ"]
)toml"},
    {"build", R"toml(
# For builds: the caches of compilers and package managers are writable as well, but not what configures them.
[profile.build]
fs.read  = ["/usr", "/etc", "/opt", "~/.gitconfig", "~/.cargo", "~/.rustup"]
fs.write = ["${workspace}", "~/.cache/ccache", "~/.cache/pip", "~/.npm/_cacache", "~/.cargo/registry", "~/.gradle/caches", "~/.m2/repository"]
fs.deny  = ["/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/ssh/ssh_host_*_key", "/etc/ssl/private", "/etc/krb5.keytab", "~/.cargo/credentials*"]
exec     = ["/usr/**", "/opt/**", "${workspace}/**", "~/.cargo/bin/**", "~/.rustup/**"]
methods  = ["test.*", "warden.hello", "fs.*", "env.get", "signal.raise"]
signals  = ["message_ready", "progress_ready", "context_reset", "refresh_groups", "schedule_task", "create_periodic_agent", "register_group", "deploy"]
review   = { "schedule_task" = ["deputy", "human"], "create_periodic_agent" = ["deputy", "human"], "register_group" = ["deputy", "human"], "deploy" = ["deputy", "human"] }
rates    = { "schedule_task" = "30/h", "create_periodic_agent" = "10/h", "register_group" = "10/h", "deploy" = "10/h" }
env      = { LANG = "C.UTF-8" }
env_pass = ["TERM", "COLORTERM", "NO_COLOR", "TZ", "CCACHE_DIR"]
limits   = { memory = "8GiB", pids = 2048 }
)toml"},
    {"agent", R"toml(
# For coding agents: their own state is writable, their model, their code host and their packages can be reached, and
# what is installed in a home, by whichever manager of versions, runs.
[profile.agent]
fs.read   = ["/usr", "/etc", "/opt", "~/.gitconfig", "~/.config/git", "~/.local/bin", "~/.local/share/claude", "~/.local/share/fnm", "~/.local/share/mise", "~/.local/share/pnpm", "~/.local/share/uv", "~/.asdf", "~/.bun", "~/.cargo/bin", "~/.deno", "~/.npm-global", "~/.nvm", "~/.pyenv", "~/.rustup", "~/.volta"]
fs.write  = ["${workspace}", "~/.claude", "~/.claude.json", "~/.codex", "~/.gemini", "~/.config/opencode", "~/.local/share/opencode", "~/.cache/pip", "~/.npm/_cacache", "~/.npm/_logs", "~/.cargo/registry"]
fs.deny   = ["/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/ssh/ssh_host_*_key", "/etc/ssl/private", "/etc/krb5.keytab", "~/.config/git/credentials", "~/.local/share/uv/credentials", "~/.npm-global/etc/npmrc", "~/.nvm/versions/node/*/etc/npmrc", "~/.local/share/fnm/node-versions/*/installation/etc/npmrc", "~/.local/share/mise/installs/node/*/etc/npmrc", "~/.volta/tools/image/node/*/etc/npmrc", "~/.asdf/installs/nodejs/*/etc/npmrc"]
exec      = ["/usr/**", "/opt/**", "${workspace}/**", "~/.local/bin/**", "~/.local/share/claude/**", "~/.local/share/fnm/**", "~/.local/share/mise/**", "~/.local/share/pnpm/**", "~/.local/share/uv/**", "~/.asdf/**", "~/.bun/**", "~/.cargo/bin/**", "~/.deno/**", "~/.npm-global/**", "~/.nvm/**", "~/.pyenv/**", "~/.rustup/**", "~/.volta/**"]
net.allow = ["@anthropic", "@openai", "@github", "@npm", "@pypi", "@crates"]
methods   = ["test.*", "warden.hello", "fs.*", "env.get"]
env       = { LANG = "C.UTF-8" }
env_pass  = ["TERM", "COLORTERM", "NO_COLOR", "TZ", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"]
limits    = { memory = "8GiB", pids = 2048 }
)toml"},
};

}  // namespace sallyport::policy
