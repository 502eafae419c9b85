"""What one technique finds: a workspace, and around it all that must stay as it is."""

import hashlib
import os
import pty
import secrets
import shutil
import subprocess
import sys

import host

BASE = f"{host.SRV}/world"
HOME_FILES = [".bashrc", ".profile", ".ssh/authorized_keys", ".gitconfig", ".config/git/config", ".npmrc"]


class World:
    """Made anew for each technique and column, and owned by the user of the column."""

    def __init__(self, number, uid):
        self.uid, self.root = uid, f"{BASE}/{number}"
        self.secret = secrets.token_hex(12)
        self.work, self.outside = f"{self.root}/work", f"{self.root}/outside"
        self.home, self.other = f"{self.root}/home", f"{self.root}/other"
        self.spool, self.program = f"{self.root}/spool", f"{self.root}/regie"
        for path in [self.work, f"{self.outside}/sub", f"{self.home}/.ssh", f"{self.home}/.config/git",
                     f"{self.home}/.config/systemd/user", f"{self.home}/.config/autostart",
                     f"{self.home}/.cache/tool", f"{self.other}/work", f"{self.other}/spool"]:
            os.makedirs(path)
        self.put(f"{self.outside}/victim", "as it was\n")
        for path in HOME_FILES:
            self.put(f"{self.home}/{path}", "# the owner's\n")
        for path in [f"{self.outside}/secret", f"{self.home}/.ssh/id_ed25519", f"{self.home}/.netrc",
                     f"{self.other}/work/secret", f"{self.other}/spool/secret", f"{self.home}/.cache/tool/token"]:
            self.put(path, f"{self.secret}\n")
        self.put(self.program, "a program of the host\n")
        self.put(f"{self.work}/README", "a project\n")
        shutil.copy(f"{host.BIN}/probe", f"{self.work}/probe")
        subprocess.run(["chown", "-R", f"{uid}:{uid}", self.root], check=True)
        self.held = self.hold()
        self.fingerprint = self.look()

    @staticmethod
    def put(path, text):
        with open(path, "w") as file:
            file.write(text)

    def hold(self):
        """A process of the same user, with the secret in its memory, its environment and a descriptor."""
        words = [f"{host.BIN}/probe", "hold", f"{self.outside}/secret", self.secret]
        held = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=self.outside, user=self.uid, group=self.uid,
                                extra_groups=[], env={"HELD": self.secret})
        _, self.held_fd, self.held_at = held.stdout.readline().decode().split()
        return held

    def look(self):
        """What everything outside of the workspace looks like."""
        found = []
        for top in [self.outside, self.home, self.other, self.program, f"{host.BIN}/regie"]:
            for path in [top, *(os.path.join(at, name) for at, dirs, files in os.walk(top) for name in dirs + files)]:
                if "/.codex" in path or "/.srt" in path or "/.npm/" in path + "/":
                    continue  # a peer's own state
                stat = os.lstat(path)
                content = b""
                if path == f"{host.BIN}/regie":
                    content = stat.st_size
                elif os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as file:
                        content = hashlib.sha256(file.read()).digest()
                extra = sorted(os.listxattr(path, follow_symlinks=False))
                found.append((path, stat.st_mode, stat.st_uid, str(content), tuple(extra)))
        return sorted(found)

    def changed(self):
        try:
            return self.look() != self.fingerprint
        except OSError:
            return True

    def is_held(self):
        """Whether the process of the host lives and runs."""
        try:
            with open(f"/proc/{self.held.pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZXTt"
        except OSError:
            return False

    def limit(self):
        """The process's soft limit on open files."""
        with open(f"/proc/{self.held.pid}/limits") as file:
            return next(int(line.split()[3]) for line in file if line.startswith("Max open files"))

    def is_pinned(self):
        return os.cpu_count() > 1 and os.sched_getaffinity(self.held.pid) == {0}

    def is_slow(self):
        return os.getpriority(os.PRIO_PROCESS, self.held.pid) == 19

    def link(self):
        """Links that a repository may well contain."""
        for name, target in [("l", self.outside), ("f", f"{self.outside}/victim"), ("n", f"{self.outside}/new")]:
            os.symlink(target, f"{self.work}/{name}")

    def mount(self, path, *options):
        os.makedirs(path, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", *options, "cover", path], check=True)

    def covered(self):
        os.mkdir(f"{self.outside}/covered")
        self.put(f"{self.outside}/covered/secret", f"{self.secret}\n")
        self.mount(f"{self.outside}/covered")

    def fixed(self):
        self.mount(f"{self.outside}/fixed", "-o", "mode=777")
        subprocess.run(["mount", "-o", "remount,bind,ro", f"{self.outside}/fixed"], check=True)

    def privileged(self, suid):
        path = f"{self.work}/{'suid' if suid else 'capable'}"
        shutil.copy(f"{host.BIN}/probe", path)
        os.chown(path, 0, 0)
        os.chmod(path, 0o4755 if suid else 0o755)
        if not suid:
            # Version 2, effective, CAP_SYS_ADMIN.
            import struct
            os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, 1 << 21, 0, 0, 0))

    def private_branch(self, repository):
        """The owner's repository, with a branch that holds the secret and is not checked out."""
        script = (f"git init -q -b main . && git config user.name o && git config user.email o@example.com && "
                  f"git add README && git commit -q -m First && git checkout -q -b private && echo {self.secret} > s && "
                  "git add s && git commit -q -m Private && git checkout -q main")
        subprocess.run(["sh", "-c", script], cwd=repository, user=self.uid, group=self.uid, extra_groups=[], check=True,
                       env={"PATH": os.environ["PATH"], "HOME": self.home})

    def results(self):
        os.mkdir(self.spool, 0o700)
        os.chown(self.spool, self.uid, self.uid)

    def objects(self):
        """Another project's objects, with a secret among them."""
        env = {"PATH": os.environ["PATH"], "HOME": self.home}
        git = {"cwd": f"{self.other}/work", "env": env, "user": self.uid, "group": self.uid, "extra_groups": [], "capture_output": True, "text": True, "check": True}
        subprocess.run(["git", "init", "-q", "--bare", "."], **git)
        self.blob = subprocess.run(["git", "hash-object", "-w", "secret"], **git).stdout.strip()

    def end(self):
        self.held.kill()
        self.held.wait()
        for name in ("sub", "covered", "fixed"):
            if os.path.ismount(f"{self.outside}/{name}"):
                subprocess.run(["umount", "-l", f"{self.outside}/{name}"], check=False)
        # A moved workspace, and trees too deep for Python.
        subprocess.run(["rm", "-rf", self.root, f"{self.root}-moved"], check=False)


class Terminal:
    """A terminal that the column's program has as its own."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        os.set_blocking(self.master, False)

    def take(self):
        """For the child: becomes its controlling terminal."""
        import fcntl
        import termios
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 1)

    def shown(self):
        """What was written to it."""
        try:
            return os.read(self.master, 4096)
        except OSError:
            return b""

    def typed(self):
        """How many bytes wait to be read from it as if they had been typed."""
        import fcntl
        import struct
        import termios
        attributes = termios.tcgetattr(self.slave)
        attributes[3] &= ~termios.ICANON
        termios.tcsetattr(self.slave, termios.TCSANOW, attributes)
        return struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, b"\0" * 4))[0]

    def close(self):
        os.close(self.master), os.close(self.slave)


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def disk():
    """The numbers and the path of a disk of the machine that root may read."""
    with open("/proc/partitions") as file:
        for line in file.read().split("\n")[2:]:
            words = line.split()
            if len(words) == 4 and words[2] != "0":
                try:
                    with open(f"/dev/{words[3]}", "rb") as device:
                        device.read(512)
                    return f"{words[0]} {words[1]}", f"/dev/{words[3]}"
                except OSError:
                    continue
    return "0 0", "/dev/no-readable-disk"


def cgroup():
    """A control group in which root may make another."""
    for path in ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]:
        if os.path.exists(f"{path}/cgroup.procs"):
            return path
    return "/sys/fs/cgroup"


def release_agent():
    top = "/sys/fs/cgroup"
    for name in sorted(os.listdir(top)):
        if os.path.exists(f"{top}/{name}/release_agent"):
            return f"{top}/{name}/release_agent"
    return f"{top}/release_agent"


def clean():
    """Takes away what a technique left on the host outside of its world."""
    for path in ["/usr/local/bin/regie-escape", "/tmp/regie-escape", "/dev/shm/regie-escape", "/tmp/regie-shared",
                 "/dev/shm/regie-shared", "/tmp/regie-fill", "/dev/shm/regie-fill", "/etc/cron.d/regie-escape",
                 "/var/spool/cron/atjobs/regie-escape", "/etc/systemd/system/regie-escape.service",
                 "/etc/regie-escape.preload", "/usr/regie-escape", "/etc/profile.d/regie-escape.sh", "/dev/mqueue/regie-queue"]:
        if os.path.lexists(path):
            os.remove(path)
    try:
        os.rmdir(f"{cgroup()}/regie-escape")
    except OSError:
        pass
    quiet = {"check": False, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["ip", "addr", "del", "203.0.113.99/24", "dev", "lo"], **quiet)
    subprocess.run(["ipcrm", "-M", "4801"], **quiet)
    subprocess.run(["ipcrm", "--all=msg"], **quiet)
    subprocess.run(["ipcrm", "--all=sem"], **quiet)
    subprocess.run(["hostname", "escape-host"], **quiet)
