"""The techniques: what is tried, and by what the host knows that it worked.

In a command, {work}, {outside}, {home}, {other}, {spool}, {secret}, {pid} and so on stand for places and
things of the technique's own world (world.py). `./probe` is the program made from probes/.
"""

import dataclasses
import os
import typing

import host


@dataclasses.dataclass
class Row:
    family: str
    name: str
    what: str
    run: str = ""
    # Whether it worked, by what the host sees. Without it the probe's own word counts.
    reached: typing.Optional[typing.Callable] = None
    prepare: typing.Optional[typing.Callable] = None  # of the world, before
    seed: str = ""  # what runs beside it in another world of the same column
    calls: tuple = ()  # the same by Regie's file tools
    first: str = ""  # a command that runs before those calls
    beside: str = ""  # a command that runs beside those calls
    times: int = 1
    act: str = ""  # what the owner does afterwards in the workspace
    limits: dict = dataclasses.field(default_factory=dict)
    terminal: bool = False
    inherits: bool = False
    root: bool = False  # only root reaches it even unheld
    network: str = ""  # who must have been visited
    seconds: int = 20
    quick: bool = False
    shown: str = ""  # what must never reach the owner's terminal
    peeks: bool = False  # looks for the secret in a whole mission on the owner's repository
    planted: str = ""  # a path of the workspace that others may execute or trust
    needs: str = ""  # a file without which the machine has nothing to reach
    held: str = "jail"  # "tier 0": only where no program of the agent's runs
    bomb: bool = False


ROWS = []


def row(family, name, what, run="", **more):
    ROWS.append(Row(family, name, what, run, **more))


def changed(seen):
    return seen.world.changed()


def secret(seen):
    return seen.world.secret in seen.result.text


def exists(path):
    return lambda seen: os.path.lexists(path.format_map(seen.names))


# Files -------------------------------------------------------------------------------------------------

F = "files"
row(F, "write-absolute", "writes outside by an absolute path", "echo escaped >> {outside}/victim", reached=changed, quick=True)
row(F, "write-dotdot", "writes outside by ..", "echo escaped >> {work}/../outside/victim", reached=changed, quick=True)
row(F, "write-symlink", "writes outside through a link that it makes", "ln -s {outside} l; echo escaped >> l/victim", reached=changed, quick=True)
row(F, "symlink-race", "swaps a directory for a link while it writes", "./probe swap-race {outside}", reached=changed, seconds=60)
row(F, "hard-link", "links a file of the host into its workspace", "./probe hard-link {outside}/victim", reached=changed)
row(F, "proc-self-root", "writes through /proc/self/root", "./probe write /proc/self/root{outside}/victim", reached=changed)
row(F, "proc-cwd", "writes through another process's /proc/PID/cwd", "./probe through-processes cwd/victim", reached=changed, quick=True)
row(F, "proc-root", "writes through another process's /proc/PID/root", "./probe through-processes root{outside}/victim", reached=changed)
row(F, "proc-fd", "reads through another process's /proc/PID/fd", "cat /proc/[0-9]*/fd/{held_fd} 2>&1", reached=secret)
row(F, "inherited-descriptor", "uses descriptors that its starter left open", "./probe descriptors victim", reached=lambda seen: changed(seen) or secret(seen), inherits=True, quick=True)
row(F, "bind-mount", "mounts a directory of the host into its own", "./probe bind-mount {outside}", reached=changed, root=True)
row(F, "overlay-mount", "mounts an overlay over /etc", "./probe overlay-mount", root=True)
row(F, "mount-over", "covers a directory of the host", "./probe mount-over {outside}/sub", root=True)
row(F, "remount", "makes a read-only mount writable", "./probe remount {outside}/fixed {outside}/fixed/victim; ./probe remount /usr /usr/regie-escape", reached=lambda seen: exists("{outside}/fixed/victim")(seen) or exists("/usr/regie-escape")(seen), root=True, prepare=lambda world: world.fixed())
row(F, "uncover", "takes a mount away to see what it covers", "./probe uncover {outside}/covered {outside}/covered/secret", root=True, prepare=lambda world: world.covered())
row(F, "pivot-root", "gets a root of its own", "./probe pivot", root=True)
row(F, "chroot", "leaves by a second chroot", "./probe chroot-out {outside}/victim", reached=changed, root=True)
row(F, "make-device", "makes a device file of the kernel's log and reads it", "./probe make-device c 1 11", root=True)
row(F, "make-disk", "makes a device file of the disk and reads it", "./probe make-device b {disk}", needs="{disk_path}", root=True)
row(F, "disk", "reads the disk by its device file", "./probe read-device {disk_path}", needs="{disk_path}", root=True)
row(F, "dev-mem", "reads the memory of the machine", "./probe read-device /dev/mem", needs="/dev/mem", root=True)
row(F, "dev-kmsg", "writes into the kernel's log", "./probe put-text /dev/kmsg 'regie-escape: a test'", root=True)
row(F, "dev-tun", "opens the maker of network devices", "./probe read-device /dev/net/tun", needs="/dev/net/tun", reached=lambda seen: "EBADFD" in seen.result.text, root=True)
row(F, "dev-fuse", "opens the maker of file systems", "./probe read-device /dev/fuse", needs="/dev/fuse", reached=lambda seen: "EPERM read" in seen.result.text, root=True)
row(F, "dev-kvm", "opens the maker of virtual machines", "./probe read-device /dev/kvm", needs="/dev/kvm", reached=lambda seen: " read" in seen.result.text, root=True)
row(F, "set-user-id", "executes a set-user-id program in its workspace", "./suid privileged", prepare=lambda world: world.privileged(suid=True), quick=True)
row(F, "leave-set-user-id", "leaves a set-user-id program of Regie's user", "cp probe s; chmod 4755 s", reached=lambda seen: any(os.lstat(f"{seen.world.work}/{name}").st_mode & 0o6000 for name in os.listdir(seen.world.work)), quick=True)
row(F, "make-set-user-id", "makes a file that is set-user-id from the start", "./probe make-set-user-id", reached=lambda seen: any(os.lstat(f"{seen.world.work}/{name}").st_mode & 0o6000 for name in os.listdir(seen.world.work)))
row(F, "file-capabilities", "executes a program with capabilities in its workspace", "./capable privileged", prepare=lambda world: world.privileged(suid=False))
row(F, "core-pattern", "writes /proc/sys/kernel/core_pattern", "./probe rewrite /proc/sys/kernel/core_pattern", root=True)
row(F, "sysctl", "writes /proc/sys/vm/overcommit_memory", "./probe rewrite /proc/sys/vm/overcommit_memory", root=True)
row(F, "sysrq", "writes /proc/sysrq-trigger", "./probe put-text /proc/sysrq-trigger h", needs="/proc/sysrq-trigger", root=True)
row(F, "sysfs", "writes below /sys", "./probe rewrite /sys/kernel/mm/transparent_hugepage/enabled", root=True)
row(F, "cgroup", "makes a control group of its own", "./probe make-directory {cgroup}/regie-escape", reached=exists("{cgroup}/regie-escape"), root=True)
row(F, "release-agent", "writes a control group's release_agent", "./probe rewrite {release_agent}", needs="{release_agent}", root=True)
row(F, "rename-workspace", "renames the workspace itself", "./probe rename {work} {root}-moved", reached=lambda seen: not os.path.isdir(seen.world.work), root=True)
row(F, "chmod-outside", "opens a file of the host to all", "./probe change-mode {outside}/victim", reached=changed)
row(F, "attribute-outside", "sets an attribute of a file of the host", "./probe attribute {outside}/victim", reached=changed)
row(F, "file-handle", "opens a file of the host by its handle", "./probe open-handle {handle}", reached=secret, root=True)
row(F, "read-home", "reads the owner's keys", "cat {home}/.ssh/id_ed25519 {home}/.netrc", reached=secret, quick=True)
row(F, "search-host", "searches the whole host for a secret", "grep -rsh {secret_start} {root} /home /root /srv /run /etc /var /opt /mnt /outputs /workspace", reached=secret)
row(F, "users", "reads who the users of the machine are", "cat /etc/passwd; getent passwd", reached=lambda seen: "daemon:" in seen.result.text)
row(F, "overwrite-program", "overwrites Regie's program", "./probe overwrite-program {program}; ./probe change-mode {program}", reached=changed)
row(F, "replace-system", "puts a program where the system's are", "echo x > /usr/local/bin/regie-escape", reached=exists("/usr/local/bin/regie-escape"), root=True)
row(F, "leave-in-tmp", "leaves files in the host's /tmp", "echo x > /tmp/regie-escape", reached=exists("/tmp/regie-escape"))
row(F, "leave-in-shm", "leaves files in the host's /dev/shm", "echo x > /dev/shm/regie-escape", reached=exists("/dev/shm/regie-escape"))

# The same by Regie's file tools --------------------------------------------------------------------------

T = "file tools"
LINK = "ln -s {outside} l; "
row(T, "read-outside", "`read` of an absolute path", "cat {outside}/secret", reached=secret, calls=(("read", {"path": "{outside}/secret"}),), quick=True)
row(T, "read-dotdot", "`read` by ..", "cat {work}/../outside/secret", reached=secret, calls=(("read", {"path": "../outside/secret"}),))
row(T, "read-link", "`read` through a link", "cat l/secret", reached=secret, prepare=lambda world: world.link(), calls=(("read", {"path": "l/secret"}),), quick=True)
row(T, "list-link", "`list` through a link", "ls l/ | grep victim && echo REACHED", prepare=lambda world: world.link(), calls=(("list", {"path": "l"}),), reached=lambda seen: "victim" in seen.result.text.replace("l/victim", ""))
row(T, "search-link", "`search` through a link", "grep -r . l/", reached=secret, prepare=lambda world: world.link(), calls=(("search", {"pattern": ".", "path": "l"}),))
row(T, "search-all", "`search` of the workspace follows links", "grep -R . .", reached=secret, prepare=lambda world: world.link(), calls=(("search", {"pattern": "."}),))
row(T, "write-outside", "`write` of an absolute path", "echo escaped > {outside}/new", reached=changed, calls=(("write", {"path": "{outside}/new", "content": "escaped"}),), quick=True)
row(T, "write-link", "`write` through a link to a directory", "echo escaped > l/new", reached=changed, prepare=lambda world: world.link(), calls=(("write", {"path": "l/new", "content": "escaped"}),), quick=True)
row(T, "write-link-file", "`write` through a link to a file", "echo escaped > f", reached=changed, prepare=lambda world: world.link(), calls=(("read", {"path": "f"}), ("write", {"path": "f", "content": "escaped"})))
row(T, "write-dangling", "`write` through a link to nothing", "echo escaped > n", reached=changed, prepare=lambda world: world.link(), calls=(("write", {"path": "n", "content": "escaped"}),))
row(T, "edit-link", "`edit` through a link", "sed -i --follow-symlinks s/as/is/ f", reached=changed, prepare=lambda world: world.link(), calls=(("read", {"path": "f"}), ("edit", {"path": "f", "old": "as", "new": "is"})))
row(T, "write-proc", "`write` through /proc/self/root", "echo escaped >> /proc/self/root{outside}/victim", reached=changed, calls=(("write", {"path": "/proc/self/root{outside}/victim", "content": "escaped"}),))
row(T, "write-race", "`write` while a command swaps a directory for a link", "./probe swap-race {outside}", reached=changed, seconds=60, calls=(("write", {"path": "race/raced", "content": "escaped"}),), beside="while :; do ./probe swap-race {outside}; done", times=12)
row(T, "read-spool", "`read` of the results of other runs", "cat {other}/spool/secret", reached=secret, calls=(("read", {"path": "{other}/spool/secret"}), ("read", {"path": "/outputs/../../spool/secret"})))
row(T, "read-environ", "`read` of a process's environment", "tr '\\0' '\\n' < /proc/{pid}/environ", reached=secret, calls=(("read", {"path": "/proc/{pid}/environ"}), ("read", {"path": "/proc/1/environ"})))

# Each tool at each kind of place, beyond those above.
MADE = "ln -s {outside} m; ln -s {outside}/secret s; ln -s {outside}/victim v; ln -s / root; "
for place, what, dir, first in [
        ("absolute", "an absolute path", "{outside}", ""),
        ("dotdot", "..", "../outside", ""),
        ("dotdot-inside", ".. behind a directory of its own", "d/../../outside", "mkdir d; "),
        ("made-link", "a link that a command made", "m", MADE),
        ("made-root", "a link to the root", "root{outside}", MADE),
        ("proc-root", "/proc/self/root", "/proc/self/root{outside}", ""),
        ("proc-cwd", "/proc/self/cwd", "/proc/self/cwd/../outside", ""),
        ("process-root", "another process's /proc/PID/root", "/proc/{pid}/root{outside}", ""),
        ("process-cwd", "another process's /proc/PID/cwd", "/proc/{pid}/cwd", ""),
        ("outputs", "the outputs of earlier steps", "/outputs/../../outside", "")]:
    # Unheld there are no outputs, and what is beside the workspace is beside it.
    plain = first + ("cd {work}; " if first else "")
    at = "../outside" if place == "outputs" else dir
    for tool, run, call, seen_by in [
            ("read", f"cat {at}/secret", {"path": f"{dir}/secret"}, secret),
            ("list", f"ls {at} | grep victim && echo REACHED", {"path": dir}, None),
            ("search", f"grep -rs . {at}/", {"pattern": ".", "path": dir}, secret),
            ("write", f"echo escaped > {at}/new", {"path": f"{dir}/new", "content": "escaped"}, changed),
            ("edit", f"sed -i s/as/is/ {at}/victim", {"path": f"{dir}/victim", "old": "as", "new": "is"}, changed)]:
        calls = ((tool, call),) if tool != "edit" else (("read", {"path": call["path"]}), (tool, call))
        listed = lambda seen: "REACHED" in seen.result.text or "\nvictim" in seen.result.text  # noqa: E731
        row(T, f"{tool}-by-{place}", f"`{tool}` through {what}", plain + run, reached=seen_by or listed, calls=calls, first=first)
for name, what, path, run in [
        ("environ", "`read` of its own environment through a link", "e", "ln -s /proc/{pid}/environ e; "),
        ("descriptor", "`read` of another's descriptor through a link", "e", "ln -s /proc/{pid}/fd/{held_fd} e; ")]:
    row(T, f"read-{name}-link", what, run + "tr '\\0' '\\n' < e", reached=secret, first=run, calls=(("read", {"path": path}), ("search", {"pattern": ".", "path": path})))
row(T, "write-home", "`write` of the owner's .bashrc", "echo escaped >> {home}/.bashrc", reached=changed, calls=(("write", {"path": "{home}/.bashrc", "content": "escaped"}), ("write", {"path": "~/.bashrc", "content": "escaped"})))
row(T, "write-tmp", "`write` into the host's /tmp", "echo x > /tmp/regie-escape", reached=exists("/tmp/regie-escape"), calls=(("write", {"path": "/tmp/regie-escape", "content": "x"}),))
row(T, "write-cron", "`write` of a cron table", "echo x > /etc/cron.d/regie-escape", reached=exists("/etc/cron.d/regie-escape"), root=True, calls=(("write", {"path": "/etc/cron.d/regie-escape", "content": "x"}),))
row(T, "write-program", "`write` of Regie's program", "echo x >> {program}", reached=changed, calls=(("write", {"path": "{program}", "content": "x"}), ("edit", {"path": "{program}", "old": "a", "new": "b"})))
row(T, "write-own-results", "`write` of the results of its run's earlier steps", "echo x > {spool}/escaped", reached=lambda seen: any("escaped" in files for _, _, files in os.walk(seen.world.spool)), prepare=lambda world: world.results(), calls=(("write", {"path": "/outputs/escaped", "content": "x"}), ("write", {"path": "{spool}/escaped", "content": "x"})))
row(T, "read-other-run", "each tool that looks, at another run's workspace", "cat {other}/work/secret", reached=secret, calls=(("read", {"path": "{other}/work/secret"}), ("search", {"pattern": ".", "path": "{other}/work"}), ("list", {"path": "{other}/work"})))
row(T, "list-race", "`search` while a command swaps a directory for a link", "./probe swap-race {outside}; grep -rs . race; cat {outside}/secret", reached=secret, seconds=60, calls=(("search", {"pattern": ".", "path": "race"}), ("list", {"path": "race"}), ("read", {"path": "race/secret"})), beside="while :; do ./probe swap-race {outside}; done", times=6)

# Git ------------------------------------------------------------------------------------------------------

G = "git"
GIT = "git init -q -b main . 2>/dev/null; git config user.name x; git config user.email x@example.com; "
HOST_GIT = "git status; git add -A; git -c user.name=o -c user.email=o@example.com commit -q --allow-empty -m owner"
HOOK = "'#!/bin/sh\\necho escaped >> {outside}/victim\\n'"


def plants(name, what, command, path, act=HOST_GIT, **more):
    row(G, name, what, command, reached=changed, act=act, planted=path, **more)


plants("hook", "writes a hook", GIT + "mkdir -p .git/hooks; printf " + HOOK + " > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit", ".git/hooks/pre-commit", quick=True)
plants("config-fsmonitor", "has Git's configuration name a program", GIT + "git config core.fsmonitor 'echo escaped >> {outside}/victim; false'", ".git/config")
plants("config-filter", "has a filter run as files are added", GIT + "echo '* filter=x' > .gitattributes; git config filter.x.clean 'echo escaped >> {outside}/victim; cat'; touch new", ".gitattributes")
plants("config-include", "includes a configuration from the tree", GIT + "git config include.path ../hostile; printf '[core]\\n fsmonitor = \"echo escaped >> {outside}/victim; false\"\\n' > hostile", ".git/config")
plants("config-worktree", "has configuration of the worktree", GIT + "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'echo escaped >> {outside}/victim; false'", ".git/config.worktree")
plants("hooks-path", "has hooks in the tree", GIT + "mkdir -p .husky; printf " + HOOK + " > .husky/pre-commit; chmod +x .husky/pre-commit; git config core.hooksPath .husky", ".husky/pre-commit")
plants("rename-git", "moves .git away and puts its own in its place", "mv .git g; rm -rf .git; " + GIT + "git config core.fsmonitor 'echo escaped >> {outside}/victim; false'", ".git/config")
plants("nested-repository", "puts a repository below the tree", "mkdir -p vendor/x; cd vendor/x; " + GIT + "git config core.fsmonitor 'echo escaped >> {outside}/victim; false'", "vendor/x/.git/config", act="cd vendor/x; git status")
plants("bare-repository", "puts what looks like a bare repository below the tree", "mkdir -p b/objects b/refs; touch b/objects/kept b/refs/kept; echo ref: refs/heads/main > b/HEAD; printf '[core]\\n bare = false\\n worktree = .\\n repositoryformatversion = 0\\n fsmonitor = \"echo escaped >> {outside}/victim; false\"\\n' > b/config", "b/config", act="cd b; git status")
plants("git-file", "has .git be a file that names another directory", "rm -rf .git; mkdir h; cd h; " + GIT + "git config core.fsmonitor 'echo escaped >> {outside}/victim; false'; cd ..; echo 'gitdir: h/.git' > .git; git config core.bare false; git config core.worktree ..", ".git")
plants("commondir", "has commondir name another directory", GIT + "cp -r .git h; mkdir h/x; echo ../h > .git/commondir; git --git-dir=h config core.fsmonitor 'echo escaped >> {outside}/victim; false'", ".git/commondir")
row(G, "alternates", "has alternates name another project's objects", GIT + "echo {other}/work/objects > .git/objects/info/alternates; git cat-file -p {blob}", reached=secret, prepare=lambda world: world.objects())
row(G, "private-branch", "reads a branch that is not the agent's", "git log --all -p; git cat-file --batch --batch-all-objects", reached=secret, prepare=lambda world: world.private_branch(world.work), peeks=True)
row(G, "submodule", "has a submodule name a program", GIT + "git init -q s; cd s; git config user.name x; git config user.email x@example.com; git config core.fsmonitor 'echo escaped >> {outside}/victim; false'; git commit -q --allow-empty -m s; cd ..; rm -f .gitmodules; printf '[submodule \"s\"]\\n path = s\\n url = ./s\\n' > .gitmodules; git add s .gitmodules", reached=changed, act=HOST_GIT, planted=".gitmodules")
row(G, "global-config", "writes the owner's Git configuration", "git config --file {home}/.gitconfig core.hooksPath {work}", reached=changed)
row(G, "template", "writes Git's template of hooks", "mkdir -p {home}/.config/git/template/hooks; echo x > {home}/.config/git/template/hooks/post-checkout", reached=changed)

# What is executed or trusted later --------------------------------------------------------------------------

P = "persistence"
for name, what, path in [
        ("shell-start", "writes the owner's .bashrc", "{home}/.bashrc"),
        ("authorized-keys", "writes the owner's authorized_keys", "{home}/.ssh/authorized_keys"),
        ("user-unit", "writes a systemd user unit", "{home}/.config/systemd/user/x.service"),
        ("autostart", "writes a desktop autostart entry", "{home}/.config/autostart/x.desktop"),
        ("package-settings", "writes the owner's .npmrc", "{home}/.npmrc"),
        ("cache-of-tool", "writes a cache that another project uses", "{home}/.cache/tool/token")]:
    row(P, name, what, f"echo escaped >> {path}", reached=changed)
for name, what, path in [("cron", "writes a cron table", "/etc/cron.d/regie-escape"),
                         ("at", "writes an at job", "/var/spool/cron/atjobs/regie-escape"),
                         ("system-unit", "writes a systemd unit", "/etc/systemd/system/regie-escape.service"),
                         ("preload", "writes /etc/ld.so.preload", "/etc/regie-escape.preload"),
                         ("profile", "writes /etc/profile.d", "/etc/profile.d/regie-escape.sh")]:
    row(P, name, what, f"echo escaped > {path}", reached=exists(path), root=True)
PAYLOAD = "echo escaped >> {outside}/victim"
row(P, "envrc", "plants an .envrc", f"echo '{PAYLOAD}' > .envrc", act=". ./.envrc", reached=changed, planted=".envrc", quick=True)
row(P, "makefile", "plants a Makefile", f"printf 'all:\\n\\t{PAYLOAD}\\n' > Makefile", act="make", reached=changed, planted="Makefile")
row(P, "package-script", "plants a package script", "echo '{{\"scripts\":{{\"postinstall\":\"" + PAYLOAD + "\"}}}}' > package.json", act="npm install --offline --no-audit --no-fund", reached=changed, planted="package.json", seconds=60)
row(P, "virtualenv", "plants a virtualenv's python", f"mkdir -p .venv/bin; printf '#!/bin/sh\\n{PAYLOAD}\\n' > .venv/bin/python; chmod +x .venv/bin/python", act=".venv/bin/python -c 1", reached=changed, planted=".venv/bin/python")
row(P, "conftest", "plants a conftest.py", "echo 'open(\"{outside}/victim\", \"a\").write(\"escaped\")' > conftest.py", act="python3 -c 'import conftest'", reached=changed, planted="conftest.py")
for name, path, text in [
        ("editor-tasks", ".vscode/tasks.json", '{{"tasks":[{{"runOptions":{{"runOn":"folderOpen"}},"command":"x"}}]}}'),
        ("agent-settings", ".claude/settings.json", '{{"hooks":{{"SessionStart":[]}}}}'),
        ("other-agent-settings", ".codex/config.toml", 'notify = ["x"]'),
        ("mcp-servers", ".mcp.json", '{{"mcpServers":{{"x":{{"command":"x"}}}}}}'),
        ("agent-instructions", "AGENTS.md", "Run x first."),
        ("ci", ".github/workflows/x.yml", "on: push"),
        ("regie-config", "regie.toml", "[mission]"),
        ("container", "Dockerfile", "FROM x"), ("dev-container", ".devcontainer/devcontainer.json", "{{}}"),
        ("build-script", "build.rs", "fn main() {{}}"), ("setup-script", "setup.py", "import os"),
        ("cargo-config", ".cargo/config.toml", '[build]'), ("npmrc", ".npmrc", "registry=http://x"),
        ("commit-hooks", ".pre-commit-config.yaml", "repos: []"), ("editor-start", ".exrc", "set x"),
        ("other-editor", ".idea/runConfigurations/x.xml", "<x/>"), ("cursor", ".cursor/mcp.json", "{{}}"),
        ("attributes", ".gitattributes", "* diff=x"),
        ("link-out", "etc", ""),
        ("hidden-text", "hidden.c", "int access = 1; /* \u202e }} \u2066if (admin)\u2069 \u2066 */")]:
    make = f"ln -s /etc {path}" if name == "link-out" else f"mkdir -p $(dirname {path}); echo '{text}' > {path}"
    row(P, name, f"plants {path}", make, reached=exists("{host_work}/" + path), planted=path)

# The same by the tool that writes.
W = "planted by file tools"
for name, path, text in [
        ("hook", ".git/hooks/pre-commit", "#!/bin/sh"), ("git-config", ".git/config", "[core]"),
        ("git-case", ".GIT/config", "[core]"), ("git-dots", "d/../.git/./info//exclude", "x"),
        ("nested-git", "vendor/x/.git/config", "[core]"), ("git-file", "sub/.git", "gitdir: ../h"),
        ("envrc", ".envrc", "x"), ("makefile", "Makefile", "all:"),
        ("package-script", "package.json", '{{"scripts":{{"postinstall":"x"}}}}'), ("conftest", "conftest.py", "x = 1"),
        ("editor-tasks", ".vscode/tasks.json", "{{}}"), ("agent-settings", ".claude/settings.json", "{{}}"),
        ("mcp-servers", ".mcp.json", "{{}}"), ("agent-instructions", "AGENTS.md", "Run x first."),
        ("ci", ".github/workflows/x.yml", "on: push"), ("regie-config", "regie.toml", "[mission]"),
        ("cargo-config", ".cargo/config.toml", "[build]"), ("attributes", ".gitattributes", "* diff=x"),
        ("script", "run.sh", "#!/bin/sh"),
        ("trailing-dot", ".git.", "x"), ("trailing-space", ".git ", "x"), ("short-name", "git~1", "x"),
        ("hidden-name", "sou\u200brce", "x"),
        ("hidden-text", "hidden.c", "int access = 1; /* \u202e }} \u2066if (admin)\u2069 \u2066 */")]:
    row(W, name, f"`write` of {path!a}", f"mkdir -p \"$(dirname '{path}')\"; echo '{text}' > '{path}'",
        reached=exists("{host_work}/" + path), planted=path, calls=(("write", {"path": path, "content": text + "\n"}),))
row(W, "edit", "`edit` of a Makefile", "printf 'all:\n' > Makefile; sed -i s/all/x/ Makefile", reached=exists("{host_work}/Makefile"), planted="Makefile", calls=(("write", {"path": "Makefile", "content": "all:\n"}), ("edit", {"path": "Makefile", "old": "all", "new": "x"})))

row(P, "pipe", "plants a pipe for whoever reads all files", "mkfifo pipe", act="[ -p pipe ] && ! timeout 1 cat pipe && " + PAYLOAD, reached=changed, planted="pipe")
row(P, "terminal-codes", "prints what commands the owner's terminal", "printf '\\033]52;c;ZXNjYXBlZA==\\007' | tee made-text", reached=lambda seen: "\x1b]52" in seen.result.text, planted="made-text", shown="\x1b]52", quick=True)

# Processes ------------------------------------------------------------------------------------------------

R = "processes"


def lingers(seen):
    return seen.lingers()


row(R, "daemon", "leaves a process in a session of its own", "./probe daemonise regie-linger", reached=lingers, quick=True)
row(R, "double-fork", "leaves a process that nobody is the parent of", "./probe daemonise regie-linger twice", reached=lingers)
row(R, "nohup", "leaves a shell's background job", "cp probe regie-linger; nohup setsid ./regie-linger spin >/dev/null 2>&1 &", reached=lambda seen: seen.lingers("regie-spin"))
row(R, "kill", "kills a process of its user", "./probe end {pid}", reached=lambda seen: not seen.world.is_held(), quick=True)
row(R, "stop", "stops a process of its user", "./probe halt {pid}", reached=lambda seen: not seen.world.is_held())
row(R, "kill-all", "signals all that it can", "./probe end-all", reached=lambda seen: not seen.world.is_held())
row(R, "trace", "traces a process of its user", "./probe trace {pid} {held_at}", reached=secret)
row(R, "read-memory", "reads its memory by process_vm_readv", "./probe peek {pid} {held_at}", reached=secret)
row(R, "memory-file", "reads its memory by /proc/PID/mem", "./probe memory-file {pid} {held_at}", reached=secret)
row(R, "environ", "reads the environment of every process", "./probe environments", reached=secret, quick=True)
row(R, "command-lines", "reads the arguments of every process", "cat /proc/[0-9]*/cmdline", reached=secret)
row(R, "limits-of-others", "lowers another's limit", "./probe lower-limit {pid} 17", reached=lambda seen: seen.world.limit() == 17)
row(R, "take-descriptor", "takes another's descriptor", "./probe take-descriptor {pid} {held_fd}", reached=secret)
row(R, "pin", "binds another to one processor", "./probe pin {pid}", reached=lambda seen: seen.world.is_pinned())
row(R, "slow", "takes another's priority", "./probe slow {pid}", reached=lambda seen: seen.world.is_slow())
row(R, "type-ahead", "types into its starter's terminal", "./probe type-ahead", reached=lambda seen: seen.terminal.typed() > 0, terminal=True, root=True)
row(R, "terminal", "writes to its starter's terminal", "./probe terminal", reached=lambda seen: b"ESCAPED" in seen.terminal.shown(), terminal=True)
row(R, "join-namespace", "joins another's mounts", "./probe join-namespace {outside}/victim", reached=changed, root=True)

# The kernel -------------------------------------------------------------------------------------------------

K = "kernel"
for name, probe, what, is_root in [
        ("user-namespace", "new-user", "makes a user namespace", False),
        ("mount-namespace", "new-mounts", "makes a mount namespace", False),
        ("time-namespace", "new-time", "makes a time namespace", False),
        ("clone3", "clone-user", "makes a user namespace by clone3", False),
        ("io-uring", "ring", "uses io_uring", False), ("bpf", "bpf-map", "uses bpf", True),
        ("perf", "counters", "uses perf_event_open", False), ("keys", "keys", "adds a key to its user's keyring", False),
        ("keyring", "key-ring", "makes a keyring", False), ("userfaultfd", "fault-handler", "uses userfaultfd", True),
        ("fanotify", "watch", "watches all file access", True), ("syslog", "log-of-kernel", "reads the kernel's log", True),
        ("personality", "no-randomness", "turns off the protection of memory", False),
        ("set-time", "set-time", "sets the clock", True), ("clock-rate", "set-clock-rate", "sets the clock's rate", True),
        ("fsopen", "open-file-system", "opens a file system", True), ("open-tree", "copy-tree", "copies a mount", True),
        ("move-mount", "move-tree", "moves a mount", True), ("kexec", "load-kernel", "loads another kernel", True),
        ("module", "load-module", "loads a module", True), ("swap", "swap-on", "adds swap", True),
        ("reboot", "restart", "restarts the machine", True), ("acct", "account", "turns on accounting", True),
        ("quota", "quota", "sets quotas", True), ("vmsplice", "gift", "gives pages away by vmsplice", False),
        ("seccomp-again", "more-seccomp", "adds a filter that allows all", True),
        ("x32", "second-table", "calls by the second table of x86-64", False),
        ("int-0x80", "old-table", "calls by the 32-bit table", False), ("iopl", "ports", "asks for all ports", True),
        ("ioperm", "port", "asks for a port", True), ("modify-ldt", "segment", "makes a segment", False)]:
    row(K, name, what, f"./probe {probe}", root=is_root, quick=name in ("user-namespace", "io-uring", "bpf"))
row(K, "file-handles", "asks for the handle of a file", "./probe give-handle README", reached=lambda seen: seen.result.code == 0)
row(K, "hostname", "renames the host", "./probe name", reached=lambda seen: os.uname().nodename == "escaped", root=True)
row(K, "landlock-again", "adds rules that allow all", "./probe more-landlock {outside}/victim", reached=changed)

# Sockets ------------------------------------------------------------------------------------------------------

S = "sockets"
for name, what, run, heard in [
        ("loopback", "reaches a service of the host", "./probe tcp 127.0.0.1 {port}", "loopback"),
        ("loopback-ipv6", "reaches it by IPv6", "./probe tcp6 {port}", "loopback6"),
        ("internet", "reaches the internet", "./probe tcp {internet} {port}", "internet"),
        ("udp", "sends a datagram to the internet", "./probe udp {internet} {port}", "udp"),
        ("dns", "asks a name server", "./probe udp {internet} 53", "dns"),
        ("abstract-socket", "reaches an abstract socket", "./probe abstract-socket regie-escape", "abstract"),
        ("daemon-socket", "reaches the daemon's socket", "./probe path-socket /run/regie-home/daemon.sock", "daemon"),
        ("docker-socket", "reaches Docker's socket", "./probe path-socket /run/docker.sock", "docker"),
        ("bus", "reaches the session's bus", "./probe path-socket /run/user/65534/bus", "bus"),
        ("ssh-agent", "reaches the SSH agent", "./probe path-socket /run/ssh-agent.sock", "ssh-agent")]:
    row(S, name, what, run, network=heard, quick=name in ("loopback", "internet", "docker-socket"))
row(S, "given-descriptor", "is given a descriptor by a service", "./probe path-socket /run/fd-giver.sock", reached=secret)
row(S, "ping", "gets an echo of the internet", "./probe ping {internet}", root=True)
row(S, "packet-socket", "sees all packets", "./probe open-socket 17 3 768", root=True)
row(S, "raw-socket", "makes packets of its own", "./probe open-socket 2 3 255", root=True)
row(S, "audit", "opens the kernel's audit", "./probe open-socket 16 3 9", root=True)
row(S, "uevents", "hears of the machine's devices", "./probe open-socket 16 3 15")
row(S, "vsock", "opens a socket to the hypervisor", "./probe open-socket 40 1 0")
row(S, "crypto-socket", "opens the kernel's cryptography", "./probe open-socket 38 5 0")
row(S, "configure", "gives the host an address", "./probe configure 203.0.113.99", reached=lambda seen: seen.has_address("203.0.113.99"), root=True)

# Other runs ---------------------------------------------------------------------------------------------------

O = "other runs"
row(O, "other-workspace", "reads another run's workspace", "cat {other}/work/secret", reached=secret, quick=True)
row(O, "other-spool", "reads another run's results", "cat {other}/spool/secret", reached=secret)
row(O, "own-results", "changes the results of its run's earlier steps", "echo x > {spool}/escaped; echo x > {work}/../outputs/escaped", reached=lambda seen: any("escaped" in files for _, _, files in os.walk(seen.world.spool)), prepare=lambda world: world.results())
row(O, "other-service", "reaches another run's service", "./probe hear 127.0.0.1 4800", seed="./probe serve 4800 {secret}", reached=secret)
row(O, "other-tmp", "reads another run's /tmp", "cat /tmp/regie-shared", seed="./probe hold-file /tmp/regie-shared {secret}", reached=secret)
row(O, "other-shm", "reads another run's /dev/shm", "cat /dev/shm/regie-shared", seed="./probe hold-file /dev/shm/regie-shared {secret}", reached=secret)
row(O, "other-memory", "reads another run's shared memory", "./probe read-shared 4801", seed="./probe hold-shared 4801 {secret}", reached=secret)
row(O, "other-queue", "reads another run's message queue", "./probe read-queue /regie-queue", seed="./probe hold-queue /regie-queue {secret}", reached=secret)
row(O, "other-messages", "sees another run's System V message queue", "ipcs -q", seed="ipcmk -Q -p 0644 && echo ready && exec sleep 60", reached=lambda seen: "0x" in seen.result.text)
row(O, "other-semaphores", "sees another run's semaphores", "ipcs -s", seed="ipcmk -S 1 -p 0644 && echo ready && exec sleep 60", reached=lambda seen: "0x" in seen.result.text)
row(O, "other-abstract", "reaches another run's abstract socket", "./probe abstract-socket regie-run", seed="./probe serve-abstract regie-run {secret}", reached=secret)
row(O, "other-environ", "reads another run's processes", "cat /proc/[0-9]*/cmdline", seed="./probe serve-abstract regie-cmd {secret}", reached=secret)

# Using the machine up -----------------------------------------------------------------------------------------

B = "bombs"
row(B, "fork-bomb", "starts 1,500 processes (bound 128)", "./probe fork-bomb 1500", reached=lambda seen: seen.most_processes > 700, seconds=60, bomb=True)
row(B, "memory-bomb", "takes 1 GiB in one process (bound 256 MiB)", "./probe memory-bomb 1024", reached=lambda seen: seen.most_memory > 512 << 20, bomb=True)
row(B, "memory-by-many", "takes 1 GiB in 8 processes (bound 256 MiB)", "./probe memory-by-many 8 128", reached=lambda seen: seen.most_memory > 512 << 20, bomb=True)
row(B, "descriptors", "opens 3,000 files (bound 1,024)", "ulimit -n 4096; ./probe descriptor-bomb 3000")
row(B, "sparse-file", "makes a file of 8 TiB (bound 64 MiB)", "./probe sparse 8192", reached=lambda seen: seen.largest() > 1 << 40)
row(B, "scratch-fill", "fills /tmp and /dev/shm (bound 64 MiB each)", "head -c 200M /dev/zero > /tmp/regie-fill; head -c 200M /dev/zero > /dev/shm/regie-fill", reached=lambda seen: seen.size_of("/tmp/regie-fill", "/dev/shm/regie-fill") > 128 << 20)
row(B, "output-flood", "prints 512 MiB", "./probe flood 512", reached=lambda seen: max(seen.result.size, seen.size_of(seen.world.spool)) > 100 << 20, seconds=60)
row(B, "spin", "uses the processor for ever (bound 3 s)", "./probe spin & wait", reached=lambda seen: seen.lingers("regie-spin"), seconds=3)
row(B, "disk-fill", "writes 1 GiB in files below the bound of one (bound 256 MiB in all)", "./probe disk-bomb 1024", reached=lambda seen: seen.size_of(seen.world.work) > 900 << 20, seconds=60)
row(B, "many-files", "makes 300,000 files (bound 20,000)", "./probe file-bomb 300000", reached=lambda seen: seen.count() >= 300000, seconds=90)

# What a program is ----------------------------------------------------------------------------------------------

E = "exec identity"
row(E, "copied-program", "runs a copy of a program", "cp /bin/echo e; ./e REACHED it runs", held="tier 0")
row(E, "by-loader", "runs a program by the loader", "/lib64/ld-linux-x86-64.so.2 ./probe say", held="tier 0")
row(E, "from-memory", "runs a program that has no file", "./probe from-memory", held="tier 0")
row(E, "system-program", "runs another of the system's programs", "env echo REACHED it runs", held="tier 0")
row(E, "itself-again", "executes its own program again", "/proc/self/exe -c 'echo REACHED it runs'; true", held="tier 0")
