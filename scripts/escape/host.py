"""A host that can be thrown away: the techniques succeed somewhere, and that must not be on this machine.

The harness runs in mount, process, network, IPC and host name namespaces of its own, as root. What it can
write of the machine's directories are overlays, its network is a loopback that also has an address of "the
internet", and when it ends the kernel ends everything in there.
"""

import os
import shutil
import socket
import subprocess
import sys
import threading

SRV = "/srv"
BIN = f"{SRV}/bin"
INTERNET = "203.0.113.7"  # an address of documentation, here on the loopback
PORT = 4711
USER = 65534
OVERLAID = ["/etc", "/root", "/home", "/var", "/usr", "/opt"]
SCRATCH = ["/tmp", "/run", "/dev/shm"]
INSIDE = "REGIE_ESCAPE_INSIDE"


def can_be_made():
    """Whether this user can make such a host here."""
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "mount", "-t", "tmpfs", "none", "/mnt"]
    return os.geteuid() == 0 and subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0


def enter():
    """Executes this program once more, in namespaces of its own. Returns only in there."""
    if os.environ.get(INSIDE):
        return
    os.environ[INSIDE] = "1"
    unshare = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--net", "--fork", "--kill-child",
               "--mount-proc", "--propagation", "private"]
    os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def prepare(regie, npm, here):
    """Covers what could be harmed, and brings what is needed."""
    def run(*words):
        subprocess.run(words, check=True)
    run("ip", "link", "set", "lo", "up")
    run("ip", "addr", "add", f"{INTERNET}/32", "dev", "lo")
    run("hostname", "escape-host")
    run("mount", "-t", "tmpfs", "-o", "size=3g,mode=755", "srv", SRV)
    os.mkdir(BIN)
    shutil.copy(regie, f"{BIN}/regie")
    sources = [os.path.join(here, "probes", name) for name in sorted(os.listdir(os.path.join(here, "probes")))
               if name.endswith(".c")]
    run("cc", "-O1", "-o", f"{BIN}/probe", *sources, "-lpthread", "-lrt")
    if npm and os.path.isdir(npm):
        os.mkdir(f"{SRV}/npm")
        run("mount", "--bind", npm, f"{SRV}/npm")
    for path in OVERLAID:
        upper, work = f"{SRV}/.upper{path}", f"{SRV}/.work{path}"
        os.makedirs(upper), os.makedirs(work)
        mode = os.stat(path).st_mode & 0o7777
        run("mount", "-t", "overlay", "-o", f"lowerdir={path},upperdir={upper},workdir={work}", "overlay", path)
        os.chmod(path, mode)
    os.makedirs("/var/spool/cron/atjobs", exist_ok=True)
    for path in SCRATCH:
        if os.path.isdir(path) and not os.path.islink(path):
            mode = "755" if path == "/run" else "1777"
            run("mount", "-t", "tmpfs", "-o", f"size=1g,mode={mode}", "scratch", path)


class Services:
    """What listens on the host, and who was heard. Each name counts its visitors."""

    def __init__(self):
        self.heard = {}
        self.secret_file = None
        os.makedirs("/run/user/65534", exist_ok=True)
        os.makedirs("/run/regie-home")
        self.paths = {"daemon": "/run/regie-home/daemon.sock", "docker": "/run/docker.sock", "bus": "/run/user/65534/bus",
                      "ssh-agent": "/run/ssh-agent.sock", "fd-giver": "/run/fd-giver.sock"}
        for name, path in self.paths.items():
            self.stream(name, socket.AF_UNIX, path)
            os.chmod(path, 0o777)
        os.chmod("/run/user/65534", 0o755)
        self.stream("abstract", socket.AF_UNIX, b"\0regie-escape")
        self.stream("loopback", socket.AF_INET, ("127.0.0.1", PORT))
        self.stream("loopback6", socket.AF_INET6, ("::1", PORT))
        self.stream("internet", socket.AF_INET, (INTERNET, PORT))
        self.packets("udp", (INTERNET, PORT))
        self.packets("dns", (INTERNET, 53))

    def stream(self, name, family, address):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.bind(address)
        listener.listen(64)
        self.heard[name] = 0

        def accept():
            while True:
                peer, _ = listener.accept()
                self.heard[name] += 1
                threading.Thread(target=self.greet, args=(name, peer), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()

    def greet(self, name, peer):
        with peer:
            try:
                if name == "fd-giver" and self.secret_file:
                    with open(self.secret_file) as file:
                        socket.send_fds(peer, [b"take"], [file.fileno()])
                peer.settimeout(5)
                peer.recv(64)
            except OSError:
                pass  # who went away has been counted

    def packets(self, name, address):
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listener.bind(address)
        self.heard[name] = 0

        def receive():
            while True:
                listener.recv(2048)
                self.heard[name] += 1
        threading.Thread(target=receive, daemon=True).start()


def processes():
    """The ids of all processes of this host."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def names():
    """The names of all living processes, by id."""
    found = {}
    for pid in processes():
        try:
            with open(f"/proc/{pid}/stat") as file:
                text = file.read()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:]
        if rest[0] not in "ZX":
            found[pid] = name
    return found


def memory_of(name):
    """The memory of all processes of a name, in bytes."""
    total = 0
    for pid, found in names().items():
        if found == name:
            try:
                with open(f"/proc/{pid}/statm") as file:
                    total += int(file.read().split()[1]) * 4096
            except OSError:
                pass
    return total
