"""Packages from the registries, through the registries' own clients, so that a mirror that this machine
is configured for is asked. Each archive is held against its hash, and kept."""

import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile

from description import Wrong


class Cache:
    """Where archives and installed dependencies are kept from one time to the next."""

    def __init__(self, root):
        self.root = os.path.abspath(root)
        os.makedirs(self.root, exist_ok=True)

    def unpacked(self, package, into):
        """The files of a package in the new directory `into`."""
        archive = self.archive(package)
        with tarfile.open(archive) as tar:
            tops = {member.name.split("/")[0] for member in tar.getmembers()}
            if len(tops) != 1:
                raise Wrong(f"{archive} has {len(tops)} directories at its top, not one")
            scratch = into + ".unpacking"
            shutil.rmtree(scratch, ignore_errors=True)
            tar.extractall(scratch, filter="data")
        os.rename(os.path.join(scratch, tops.pop()), into)
        os.rmdir(scratch)

    def archive(self, package):
        kept = os.path.join(self.root, "archives", package["registry"])
        os.makedirs(kept, exist_ok=True)
        name = f"{package['name'].replace('/', '+')}-{package['version']}.tar.gz"
        path = os.path.join(kept, name)
        if not os.path.exists(path):
            scratch = path + ".fetching"
            shutil.rmtree(scratch, ignore_errors=True)
            os.makedirs(scratch)
            found = FETCH[package["registry"]](package, scratch)
            os.rename(found, path)
            shutil.rmtree(scratch)
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != package["sha256"]:
            os.rename(path, path + ".refused")
            raise Wrong(f"{package['name']} {package['version']} has the SHA-256 {digest}, not {package['sha256']}: "
                        f"kept as {path}.refused")
        return path

    def venv(self, packages):
        """An environment of Python with these packages, made once."""
        def make(into):
            run([sys.executable, "-m", "venv", "--without-pip", into])
            python = os.path.join(into, "bin", "python")
            run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile", *packages])
        return self.made("venv", [sys.version, *packages], make)

    def node_modules(self, packages):
        """A `node_modules` with these packages, made once."""
        def make(into):
            os.makedirs(into)
            with open(os.path.join(into, "package.json"), "w") as file:
                file.write('{"private":true}\n')
            run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", *packages], cwd=into)
        return os.path.join(self.made("node", packages, make), "node_modules")

    def made(self, kind, key, make):
        digest = hashlib.sha256("\n".join(key).encode()).hexdigest()[:16]
        path = os.path.join(self.root, kind, digest)
        if not os.path.exists(path):
            scratch = path + ".making"
            shutil.rmtree(scratch, ignore_errors=True)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            make(scratch)
            os.rename(scratch, path)
        return path


def crate(package, scratch):
    """`cargo fetch` leaves the archive in the owner's registry cache."""
    os.makedirs(os.path.join(scratch, "src"))
    open(os.path.join(scratch, "src", "lib.rs"), "w").close()
    with open(os.path.join(scratch, "Cargo.toml"), "w") as file:
        file.write(f'[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
                   f'[dependencies]\n{package["name"]} = "={package["version"]}"\n')
    run(["cargo", "fetch", "--quiet"], cwd=scratch)
    home = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
    name = f"{package['name']}-{package['version']}.crate"
    found = glob.glob(os.path.join(glob.escape(home), "registry", "cache", "*", glob.escape(name)))
    if not found:
        raise Wrong(f"cargo fetched no {name}")
    shutil.copyfile(found[0], os.path.join(scratch, name))
    return os.path.join(scratch, name)


def sdist(package, scratch):
    run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", scratch,
         f"{package['name']}=={package['version']}"])
    return only(scratch, "*.tar.gz")


def tarball(package, scratch):
    run(["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", scratch,
         f"{package['name']}@{package['version']}"], cwd=scratch)
    return only(scratch, "*.tgz")


FETCH = {"crates.io": crate, "pypi": sdist, "npm": tarball}


def only(scratch, pattern):
    found = glob.glob(os.path.join(glob.escape(scratch), pattern))
    if len(found) != 1:
        raise Wrong(f"{len(found)} archives were fetched to {scratch}, not one")
    return found[0]


def run(command, cwd=None, env=None):
    """Runs a command; what it says is shown only when it fails."""
    done = subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace")
    if done.returncode != 0:
        raise Wrong(f"`{' '.join(map(str, command))}` failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
