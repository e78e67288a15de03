// Which names inside a workspace are protected, and which configuration a repository may carry out
// of a sandbox. Data only: this is the one place to change.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace sallyport::sandbox {

template <typename Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Settings that make an editor, an agent, a shell or a debugger on the host run code when it is started there:
// read-only where they exist, reported at exit where they appear. In lower case, like the lists below.
inline constexpr std::array<const char*, 74> kSettings = {
    ".vscode",
    ".idea",
    ".zed",
    ".devcontainer",
    ".exrc",
    ".vimrc",
    ".gvimrc",
    ".nvimrc",
    ".nvim.lua",
    ".lazy.lua",
    ".helix",
    ".mcp.json",
    ".claude",
    ".codex",
    ".gemini",
    ".qwen",
    ".cursor",
    ".windsurf",
    ".kiro",
    ".amazonq",
    ".continue",
    ".continuerc.json",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    "crush.json",
    ".crush.json",
    "crushrc",
    ".crushrc",
    ".roo",
    ".kilocode",
    ".clinerules",
    ".amp",
    ".augment",
    ".factory",
    ".junie",
    ".trae",
    ".openhands",
    ".aider.conf.yml",
    ".envrc",
    ".direnv",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".husky",
    ".lazygit.yml",
    ".gdbinit",
    ".lldbinit",
    ".pdbrc",
    ".irbrc",
    ".pryrc",
    ".rprofile",
    ".renviron",
    ".rdata",
    ".ghci",
    ".iex.exs",
    ".ocamlinit",
    ".octaverc",
    ".perldb",
    ".rdbgrc",
    ".byebugrc",
    ".dir-locals.el",
    ".dir-locals-2.el",
    "coc-settings.json",
    ".fleet",
    "jupyter_server_config.py",
    "jupyter_server_config.json",
    "jupyter_lab_config.py",
    "jupyter_lab_config.json",
    "jupyter_notebook_config.py",
    "jupyter_notebook_config.json",
};

// The same where only the directory above makes them settings: of Mercurial, Sapling and Jujutsu, whose settings may
// also be those of a repository that they share, and of Copilot.
inline constexpr std::array<std::string_view, 8> kSettingPaths = {".hg/hgrc",
                                                                  ".hg/hgrc-not-shared",
                                                                  ".hg/sharedpath",
                                                                  ".sl/config",
                                                                  ".sl/sharedpath",
                                                                  ".jj/repo/config.toml",
                                                                  ".jj/workspace-config.toml",
                                                                  ".github/hooks"};

// The same in a git directory.
inline constexpr const char* kGitSetting = "lazygit.yml";

// What a hook of the user's may run with the next commit, and the project's own work changes: writable, and reported at
// exit where it was written.
inline constexpr std::array<const char*, 8> kProjectSettings = {
    ".pre-commit-config.y*ml", "prek.toml",       "lefthook*.y*ml",  "lefthook*.toml",
    "lefthook*.json*",         ".lefthook*.y*ml", ".lefthook*.toml", ".lefthook*.json*",
};

// Secrets, matched without regard to case. Masked where git does not track them.
inline constexpr std::array<const char*, 23> kSecretFiles = {
    ".env",    ".env.*",    "id_rsa",
    "id_dsa",  "id_ecdsa",  "id_ed25519",
    "*.pem",   "*.key",     "*.p12",
    "*.pfx",   "*.jks",     "*.keystore",
    "*.ppk",   ".netrc",    ".git-credentials",
    ".pgpass", ".htpasswd", "credentials.json",
    ".npmrc",  ".pypirc",   ".env~",
    ".envrc",  "id_*_sk",
};
inline constexpr std::array<const char*, 3> kSecretDirectories = {".ssh", ".aws", ".gnupg"};
// The same where only the directory above makes them secrets: compared as written.
inline constexpr std::array<std::string_view, 6> kSecretPaths = {
    ".kube/config", ".docker/config.json", ".config/gcloud", ".aws/credentials", "gh/hosts.yml", "git/credentials"};

// Look like secrets and are made to be shared.
inline constexpr std::array<const char*, 6> kNoSecrets = {".env.example", ".env.sample",   ".env.template",
                                                          ".env.dist",    ".env.defaults", "cacert.pem"};

// Not walked into, unless a profile denies by pattern: large, and holding nothing of the kinds above that could be
// acted on. Nothing of those kinds can be moved there from inside either: it is covered where it is.
inline constexpr std::array<const char*, 4> kSkippedDirectories = {"node_modules", "__pycache__", ".hg", ".svn"};

// Directories in a git directory in which git, or git-lfs, writes files by name. Those of "modules" and "worktrees" are
// git directories themselves.
inline constexpr std::array<std::string_view, 17> kGitDirectories = {
    "NOTES_MERGE_WORKTREE",
    "branches",
    "info",
    "lfs",
    "logs",
    "lost-found",
    "modules",
    "objects",
    "rebase-apply",
    "rebase-merge",
    "refs",
    "reftable",
    "remotes",
    "rr-cache",
    "sequencer",
    "svn",
    "worktrees",
};

// What git runs from a hooks directory.
inline constexpr std::array<const char*, 28> kGitHooks = {
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "push-to-checkout",
    "reference-transaction",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "post-index-change",
    "p4-changelist",
    "p4-prepare-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
};

// Keys of a repository's configuration that run nothing. Everything else is taken out at exit when
// it was written inside a sandbox. A section with a subsection is written "section.*.key".
inline constexpr std::array<std::string_view, 43> kHarmlessGitKeys = {
    "core.repositoryformatversion",
    "core.filemode",
    "core.bare",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.symlinks",
    "core.autocrlf",
    "core.eol",
    "core.precomposeunicode",
    "core.safecrlf",
    "core.quotepath",
    "core.abbrev",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "index.sparse",
    "index.version",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "fetch.prune",
    "remote.*.url",
    "remote.*.fetch",
    "remote.*.push",
    "remote.*.mirror",
    "remote.*.tagopt",
    "branch.*.remote",
    "branch.*.merge",
    "branch.*.rebase",
    "branch.*.description",
    "submodule.*.url",
    "submodule.*.active",
    "submodule.active",
    "user.name",
    "user.email",
    "extensions.objectformat",
    "extensions.worktreeconfig",
    "extensions.partialclone",
    "extensions.refstorage",
    "extensions.relativeworktrees",
    "remote.*.promisor",
    "remote.*.partialclonefilter",
    "init.defaultbranch",
    "lfs.repositoryformatversion",
};

}  // namespace sallyport::sandbox
