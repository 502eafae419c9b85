"""The shapes of repositories that break tools: many files, submodules, pointers of Git LFS, foreign
line ends and names."""

import json
import os

from registry import run

POINTER = ("version https://git-lfs.github.com/spec/v1\n"
           "oid sha256:{digest:064x}\n"
           "size {size}\n")


def plain(_repository):
    """As it comes."""


def monorepo(repository):
    """The package becomes one of many workspaces of npm; the others are made up."""
    layout = repository.project.layout
    home = os.path.join("packages", layout["path"])
    names = [name for name in os.listdir(repository.path) if name not in (".git", ".gitignore", ".worktreeinclude")]
    os.makedirs(repository.at(home))
    for name in names:
        os.rename(repository.at(name), repository.at(os.path.join(home, name)))
    root = {"name": "monorepo", "private": True, "workspaces": ["packages/*"],
            "scripts": {"test": f"npm run test:all --workspace packages/{layout['path']}"}}
    repository.write("package.json", (json.dumps(root, indent=2) + "\n").encode())
    for number in range(layout["packages"]):
        part = f"packages/part-{number:04}"
        manifest = {"name": f"part-{number:04}", "version": "1.0.0", "main": "src/file-00.js"}
        repository.write(f"{part}/package.json", (json.dumps(manifest) + "\n").encode())
        for file in range(layout["files"] - 1):
            repository.write(f"{part}/src/file-{file:02}.js", f"exports.value = {number * 100 + file}\n".encode())


def submodule(repository):
    """A dependency of the project comes as a submodule, checked out in the owner's copy."""
    layout = repository.project.layout
    origin = repository.path + ".origin"
    repository.cache.unpacked(layout["package"], origin)
    for name in (".git", ".cargo_vcs_info.json"):
        if os.path.isfile(os.path.join(origin, name)):
            os.remove(os.path.join(origin, name))
    git = ["git", "-C", origin, "-c", "user.name=Other", "-c", "user.email=other@example.com"]
    run([*git, "init", "--quiet", "--initial-branch=main"])
    run([*git, "add", "--all", "--force"])
    run([*git, "commit", "--quiet", "--message", "A dependency"])
    repository.git("submodule", "--quiet", "add", origin, layout["path"])


def lfs(repository):
    """Pointers where a checkout without Git LFS has them, and settings that would run a program of
    somebody's for each file that has the attribute."""
    repository.write(".gitattributes", b"*.bin filter=lfs diff=lfs merge=lfs -text\n")
    for number in range(5):
        pointer = POINTER.format(digest=number * 7919 + 1, size=1 << 20)
        repository.write(f"assets/model-{number}.bin", pointer.encode())


def arm(repository):
    """Settings of a repository that name programs: none of them may run."""
    mark = repository.path + ".ran"
    for key, value in [("filter.lfs.clean", f"sh -c 'echo clean >> {mark}; cat'"),
                       ("filter.lfs.smudge", f"sh -c 'echo smudge >> {mark}; cat'"),
                       ("filter.lfs.required", "true"),
                       ("diff.lfs.textconv", f"sh -c 'echo textconv >> {mark}'"),
                       ("core.fsmonitor", f"sh -c 'echo fsmonitor >> {mark}'")]:
        repository.git("config", key, value)
    return mark


def foreign(repository):
    """Each text has the line ends of Windows; names and contents that are no UTF-8 lie beside it."""
    for folder, folders, names in os.walk(repository.path):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                content = file.read()
            # git reads its own files by line, whatever their ends.
            if b"\0" in content or name in (".gitignore", ".worktreeinclude"):
                continue
            with open(path, "wb") as file:
                file.write(content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
    repository.write(b"docs/r\xe9sum\xe9.txt", b"Le r\xe9sum\xe9 est court.\r\nIl dit tout.\r\n")
    repository.write(b"docs/\xff\xfe odd \"name\"\ttab.txt", b"\xff\xfe\x00\x01")
    repository.write(b"docs/notes.txt", b"Caf\xe9 au lait.\r\nThe gr\xfcn of chartreuse is #7fff00.\r\n")


LAYOUTS = {"plain": plain, "monorepo": monorepo, "submodule": submodule, "lfs": lfs, "foreign": foreign}

