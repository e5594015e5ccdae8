"""What MkDocs is told of the tree: pages from outside of docs/, and links that lead there.

Pages link to each other, to READMEs and to sources by paths of the tree. A link to a page of the site leads to it. Any other
path that there is becomes its name in code. What leads nowhere is left for MkDocs to refuse."""

import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^()\s#]*)(#[^()\s]*)?\)")
COMMENT = re.compile(r"^<!--.*?-->\n?", re.M | re.S)
ERROR = re.compile(r'FETTLE_ERROR\((E\d+), "((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\)')
EXPLANATION = re.compile(r'FETTLE_EXPLAIN\((E\d+), "((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\)')

_sources = {}  # page of the site → the file that it is made of, or None: made here


def rooms():
    return sorted(p.parent.name for p in ROOT.glob("src/*/README.md"))


def on_config(config):
    for page in ROOT.glob("docs/**/*.md"):
        _sources[page.relative_to(ROOT / "docs").as_posix()] = page.relative_to(ROOT).as_posix()
    _sources["index.md"] = "README.md"
    _sources["contributing.md"] = "CONTRIBUTING.md"
    for room in rooms():
        _sources[f"rooms/{room}.md"] = f"src/{room}/README.md"
    _sources["errors.md"] = None
    config.nav = expanded(config.nav)
    return config


def expanded(entry, title=None):
    """Of the navigation, with `folder/` as a list of the folder's pages. The README comes first."""
    if isinstance(entry, dict):
        return {title: expanded(inside, title) for title, inside in entry.items()}
    if isinstance(entry, list):
        return [expanded(inside) for inside in entry]
    if not entry.endswith("/"):
        return entry
    pages = sorted((p for p in _sources if p.startswith(entry)), key=lambda p: (not p.endswith("README.md"), p))
    return pages if title else {entry.rstrip("/").capitalize(): pages}


def on_files(files, config):
    for page, source in _sources.items():
        if source is None:
            files.append(File.generated(config, page, content=errors()))
        elif not source.startswith("docs/"):
            files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    files.append(File.generated(config, "style.css", content=(ROOT / "site/style.css").read_text()))
    return files


def errors():
    """One section for each error code, as `fettle explain` has it."""

    def plain(text):
        return text.replace('\\"', '"').replace("\\\\", "\\").replace("<", "&lt;")

    reasons = {m[1]: (m[2], m[3]) for m in EXPLANATION.finditer((ROOT / "src/cli/explanations.inc").read_text())}
    lines = ["# Errors", "", "Each error has a code. `fettle explain E201` prints what stands here.", ""]
    for code, what, remedy in ERROR.findall((ROOT / "src/base/error_codes.inc").read_text()):
        why, example = reasons[code]
        lines += [f"## {code}", "", f"**{plain(what)}.** {plain(why)}", ""]
        lines += [f"- Example: {plain(example)}", f"- What to do: {plain(remedy)}", ""]
    return "\n".join(lines)


def on_page_markdown(markdown, page, config, files):
    source = _sources[page.file.src_uri]
    if source is None:
        return markdown
    pages = {made: site for site, made in _sources.items() if made}

    def link(match):
        text, path, anchor = match[1], match[2], match[3] or ""
        if not path or re.match(r"[a-z]+:", path):
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        readme = posixpath.join(target, "README.md")
        if target in pages or readme in pages:
            to = posixpath.relpath(pages.get(target) or pages[readme], posixpath.dirname(page.file.src_uri) or ".")
            return f"[{text}]({to}{anchor})"
        if (ROOT / target).exists():
            return text if target in text or text.startswith("`") else f"{text} (`{target}`)"
        return match[0]

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)  # code stays as it is
    return "".join(p if p.startswith("```") else LINK.sub(link, COMMENT.sub("", p)) for p in parts)
