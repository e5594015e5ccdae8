#!/usr/bin/env python3
"""Follows the recipes of README.md ("Adding things") to the letter, all of them in one copy of the tree.

usage: check_recipes.py --build FOLDER    FOLDER: where this tree is built, with Ninja; the copy goes to FOLDER/recipes

Each folder beside this file that has a recipe.toml is one recipe:
  adds = "a rule"            a row of README's table: the recipe touches exactly the files in backticks there
  beside = ["src/….cpp"]     files below tree/ that only use what was added
  build = ["test_tune"]      what has to be built for its checks
  [[line]]                   one edit: in `file`, `text` comes after or before the line that has `after` or `before`; or `text`
                             is `instead` of a piece of a line; or the number behind `increment` becomes the next one
  [[command]] run = "…"      what else the recipe says to run
  [[check]] run = "…"        what shows that the addition works; its output has each regular expression of `shows`
and tree/ below it holds new files, where they would stand in the tree. Tests (`*_test.cpp`) may always be added.

Sources that no recipe touches are not compiled: the copy takes the objects of FOLDER (reuse.cmake).
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = {"build", "demo", "__pycache__", "node_modules"}
# More than this to compile: the tree's own build is not up to date.
MOST_COMPILED = 120
# What the tree asks of everybody who adds something.
SCRIPTS = ["scripts/check_docs.py", "scripts/check_includes.py", "scripts/check_duplicates.py",
           "scripts/primitive_pages.py --check"]
# A header that only gains declarations means the same to whoever was compiled without them.
DECLARATION = re.compile(r"(\s*//[^\n]*\n|\s*\n|(extern )?[\w:<>&*, ]+\([\w:<>&*, ={}]*\);\n)+")


class Failure(Exception):
    pass


def tree_files():
    """Path in the tree → content, of all that is source."""
    found = {}
    for folder, folders, names in os.walk(ROOT):
        here = pathlib.Path(folder)
        folders[:] = [f for f in folders if not f.startswith(".") and f not in SKIPPED]
        for name in names:
            path = here / name
            if path.is_file() and not path.is_symlink() and not name.startswith(".git"):
                found[str(path.relative_to(ROOT))] = path.read_bytes()
    return found


def row_patterns(readme, adds):
    """[(path as README has it, regular expression)] of the row of its table that begins with `adds`."""
    for line in readme.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and cells[0] == adds:
            paths = re.findall(r"`((?:src|docs|tests|scripts|cmake)/[^`\s]*)`", line)
            as_regex = lambda path: re.sub(r"[A-Z]{3,}", "[a-z0-9_]+", re.escape(path)) + (".*" if path[-1] == "/" else "")
            return [(path, re.compile(as_regex(path))) for path in paths]
    raise Failure(f'README.md, "Adding things", has no row for {adds}')


class Recipe:
    def __init__(self, folder):
        self.name = folder.name
        said = tomllib.loads((folder / "recipe.toml").read_text())
        self.adds, self.beside, self.build = said["adds"], said.get("beside", []), said["build"]
        self.lines, self.checks = said.get("line", []), said["check"]
        self.commands = [command["run"] for command in said.get("command", [])]
        self.new = {str(p.relative_to(folder / "tree")): p.read_bytes() for p in (folder / "tree").rglob("*") if p.is_file()}
        self.touched = set()

    def apply(self, files):
        for path, content in self.new.items():
            if path in files:
                raise Failure(f"{path} is there already")
            files[path] = content
        for edit in self.lines:
            path = edit["file"]
            if path not in files:
                raise Failure(f"there is no {path}")
            files[path] = edited(files[path].decode(), edit).encode()
        self.touched = set(self.new) | {edit["file"] for edit in self.lines}

    def check_against(self, readme):
        """Touched is what README names, and all that it names."""
        patterns = row_patterns(readme, self.adds)
        named = lambda path: any(regex.fullmatch(path) for _, regex in patterns)
        for path in sorted(self.touched):
            if not named(path) and path not in self.beside and not path.endswith("_test.cpp"):
                raise Failure(f'it needs {path}, which README.md does not name for "{self.adds}"')
        for path, regex in patterns:
            if not any(regex.fullmatch(touched) for touched in self.touched):
                raise Failure(f'README.md names {path} for "{self.adds}", and nothing was to do there')


def edited(text, edit):
    path = edit["file"]
    kind = next(k for k in ("after", "before", "instead", "increment") if k in edit)
    anchor = edit[kind]
    if text.count(anchor) != 1:
        raise Failure(f"{path} has {text.count(anchor)} times: {anchor}")
    if kind == "increment":
        return re.sub(re.escape(anchor) + r"(\d+)", lambda m: anchor + str(int(m.group(1)) + 1), text)
    if kind == "instead":
        return text.replace(anchor, edit["text"])
    if path.endswith(".h") and not DECLARATION.fullmatch(edit["text"]):
        raise Failure(f"{path}: more than declarations")
    at = text.index(anchor)
    if kind == "before":
        at = text.rindex("\n", 0, at) + 1
    else:
        at = text.index("\n", at) + 1
        if path.endswith(".inc") and text[at:].strip():
            raise Failure(f"{path}: only its end may grow, so that what is before it stays as it was compiled")
    return text[:at] + edit["text"] + text[at:]


# --- the copy --------------------------------------------------------------------------------------------------------


def write_copy(copy, files):
    """Writes what differs, removes what is not in `files`."""
    for path, content in files.items():
        target = copy / path
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        mode = (ROOT / path).stat().st_mode if (ROOT / path).exists() else 0o644
        if target.stat().st_mode & 0o777 != mode & 0o777:
            target.chmod(mode & 0o777)
    for path in copy_files(copy).keys() - files.keys():
        (copy / path).unlink()


def copy_files(copy):
    found = {}
    for folder, folders, names in os.walk(copy):
        folders[:] = [f for f in folders if f not in SKIPPED]
        for name in names:
            path = pathlib.Path(folder) / name
            found[str(path.relative_to(copy))] = path.read_bytes()
    return found


def reusable(build, original, files, rewritten):
    """[(target, source as the copy has it, object)]: what the tree's build has made of sources and headers that are as they
    were. Of files that changed, `rewritten` are those that gained more than declarations."""
    changed = {path for path in files if files[path] != original.get(path)}
    included = {path for path in changed if path.endswith(".inc")}
    # Whoever sees one of these is compiled: they may differ, or lead out of the copy to files and programs of the tree.
    avoided = rewritten | {path for path, text in original.items() if path.endswith((".cpp", ".h"))
                           and (b"FETTLE_SOURCE_DIR" in text or b'FETTLE_BINARY_DIR "/bin' in text)}
    deps, times = read_deps(build), {}

    def time_of(path):
        if path not in times:
            times[path] = os.stat(path).st_mtime_ns if os.path.exists(path) else sys.maxsize
        return times[path]

    found = []
    for line in (build / "compile_commands.json").read_text().split("\n{")[1:]:
        source = pathlib.Path(re.search(r'"file": "(.*?)"', line).group(1))
        made = re.search(r" -o (\S+)", line).group(1)
        target = re.search(r"CMakeFiles/([^/]+)\.dir/", made).group(1)
        if source.is_relative_to(build / "generated"):
            key = "build/" + str(source.relative_to(build))
        elif source.is_relative_to(ROOT) and not source.is_relative_to(ROOT / "build"):
            key = str(source.relative_to(ROOT))
        else:
            key = str(source.resolve())
        if made not in deps or key in changed or time_of(build / made) == sys.maxsize:
            continue
        seen = [os.path.normpath(build / dep) for dep in deps[made]]
        if any(time_of(dep) > time_of(build / made) for dep in seen):
            continue
        local = {os.path.relpath(dep, ROOT) for dep in seen if dep.startswith(str(ROOT) + "/")} | {key}
        if local & avoided or any("/generated/tables/" in dep and dep.endswith(".h") for dep in seen):
            continue
        # A group of sources that are compiled together is as good as each of them.
        sources = {path for path in local if path.endswith(".cpp")}
        texts = [original.get(path, b"").decode(errors="replace") for path in sources]
        if sources & changed or any(
            f'#include "{path.removeprefix("src/")}"' in text for path in included for text in texts
        ):
            continue
        found.append((target, key, build / made))
    return found


def cached(build, name):
    """What CMake has noted under this name."""
    return re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M).group(1)


def read_deps(build):
    """Object → the files that it was made of, as Ninja noted them."""
    ninja = cached(build, "CMAKE_MAKE_PROGRAM")
    out = subprocess.run([ninja, "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    found, at = {}, None
    for line in out.splitlines():
        if line.startswith("    "):
            at.append(line.strip())
        elif ": #deps" in line:
            at = found.setdefault(line.split(": #deps")[0], [])
    return found


def configure(build, copy, objects):
    made = copy / "build"
    made.mkdir(exist_ok=True)
    # The Python of the tree, where CMake looks for it (and writes files of its own beside it).
    (made / "python").mkdir(exist_ok=True)
    for path in (ROOT / "build/python").iterdir():
        link = made / "python" / path.name
        if "cmake" not in path.name.lower() and not link.exists():
            link.symlink_to(path)
    cache = []
    for line in (build / "CMakeCache.txt").read_text().splitlines():
        entry = re.fullmatch(r"([\w.-]+):(STRING|PATH|FILEPATH|BOOL)=(.*)", line)
        if entry and str(ROOT) not in entry.group(3) and entry.group(1) != "CMAKE_PROJECT_fettle_INCLUDE":
            cache.append(f'set({entry.group(1)} [==[{entry.group(3)}]==] CACHE {entry.group(2)} "")\n')
    write_if_new(made / "initial.cmake", "".join(cache))
    write_if_new(made / "objects.cmake", "".join(
        f'set_property(GLOBAL PROPERTY "reuse {target} {source}" "{made_of}")\n' for target, source, made_of in objects))
    return run(["cmake", "-G", "Ninja", "-S", copy, "-B", made, "-C", made / "initial.cmake",
                f"-DCMAKE_PROJECT_fettle_INCLUDE={HERE}/reuse.cmake", f"-DFETTLE_REUSE_LIST={made}/objects.cmake",
                f"-DFETTLE_REUSE_BUILD={build}"])


def write_if_new(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def run(command, cwd=None):
    """(status, all that was printed)"""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          shell=isinstance(command, str), executable="/bin/bash" if isinstance(command, str) else None)
    return done.returncode, done.stdout


def whose(text, recipes):
    """The recipes whose files the text names; what failed to compile before all else."""
    failed = "\n".join(re.findall(r"^FAILED: (\S+)", text, re.M)) or text
    for files in (lambda recipe: recipe.touched, lambda recipe: recipe.new):
        names = [recipe.name for recipe in recipes
                 if any(re.search(rf"\b{re.escape(pathlib.Path(path).stem)}\b", failed) for path in files(recipe))]
        if names:
            return ", ".join(names)
    return "all recipes together"


# --- the whole -------------------------------------------------------------------------------------------------------


def follow(build, recipes):
    original = tree_files()
    files = dict(original)
    readme = original["README.md"].decode()
    failures = []

    def tell(who, what):
        failures.append(who)
        print(f"FAILED {who}: {what}", flush=True)

    for recipe in recipes:
        try:
            recipe.apply(files)
        except Failure as failure:
            tell(recipe.name, failure)
    if failures:
        return failures
    copy = build / "recipes" / "tree"
    copy.mkdir(parents=True, exist_ok=True)
    write_copy(copy, files)
    for recipe in recipes:
        for command in recipe.commands:
            status, said = run(command, copy)
            if status != 0:
                tell(recipe.name, f"{command}\n{said}")
        for path, content in copy_files(copy).items():
            if files.get(path) != content:
                files[path] = content
                recipe.touched.add(path)
        try:
            recipe.check_against(readme)
        except Failure as failure:
            tell(recipe.name, failure)
    if failures:
        return failures

    status, said = configure(build, copy, reusable(build, original, files, {
        edit["file"] for recipe in recipes for edit in recipe.lines if "instead" in edit or "increment" in edit}))
    if status != 0:
        tell(whose(said, recipes), f"the copy cannot be configured\n{said}")
        return failures
    ninja = [cached(build, "CMAKE_MAKE_PROGRAM"), "-C", copy / "build", "-k", "0", f"-j{os.cpu_count()}"]
    targets = sorted({target for recipe in recipes for target in recipe.build})
    compiled = len(re.findall(r" -o \S+\.o -c ", run([*ninja, "-t", "commands", *targets])[1]))
    if compiled > MOST_COMPILED:
        tell("the build", f"{compiled} files would be compiled: build fettle_tests in {build} first")
        return failures
    print(f"{len(recipes)} recipes, {compiled} files to compile", flush=True)
    status, said = run([*ninja, *targets])
    if status != 0:
        tell(whose(said, recipes), f"the copy does not build\n{said[-20000:]}")
        return failures

    checks = [(recipe, check) for recipe in recipes for check in recipe.checks]
    checks += [(None, {"run": f"build/python/bin/python {script}"}) for script in SCRIPTS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (recipe, check), (status, said) in zip(checks, pool.map(lambda c: run(c[1]["run"], copy), checks)):
            missing = [shown for shown in check.get("shows", []) if not re.search(shown, said, re.M)]
            if status != 0 or missing:
                tell(recipe.name if recipe else whose(said, recipes), "\n".join(
                    [f"{check['run']}: status {status}", *(f"it does not show: {m}" for m in missing), said[-8000:]]))
    now = copy_files(copy)
    for path in sorted(now.keys() | files.keys()):
        if now.get(path) != files.get(path):
            tell(whose(path, recipes), f"{path} was changed by what was built and run")
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("recipe", nargs="*", help="only these, by their folders' names")
    args = parser.parse_args()
    recipes = [Recipe(path.parent) for path in sorted(HERE.glob("*/recipe.toml"))]
    recipes = [r for r in recipes if not args.recipe or r.name in args.recipe]
    try:
        failures = follow(args.build.resolve(), recipes)
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1
    if not failures:
        print(", ".join(recipe.name for recipe in recipes) + ": as README.md says")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
